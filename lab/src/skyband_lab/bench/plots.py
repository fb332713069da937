"""Pictures of the experiments; matplotlib loads only here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from skyband.errors import MissingLibraryError


def errors(lines: list[dict[str, Any]], path: Path) -> None:
    """The cumulated errors of each policy over the windows: figure 11 of the AcquaTop paper."""
    plt = pyplot()
    figure, axes = plt.subplots(2, 1, figsize=(8, 9), sharex=True)
    for axis, field, title in zip(axes, ("ndcg_error", "precision_error"), ("nDCG@k", "precision@k"), strict=True):
        for line in lines:
            axis.plot(range(1, len(line[field]) + 1), line[field], label=line["paper"] or line["policy"])
        axis.set_ylabel(f"cumulated error of {title}")
    axes[0].legend(ncols=3, fontsize="small")
    axes[1].set_xlabel("window")
    save(figure, path)


def curves(lines: list[dict[str, Any]], over: str, path: Path) -> None:
    """NDCG and precision of each policy over one parameter, the median of the sets: figures 12 to 15."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(12, 5))
    for axis, field in zip(axes, ("ndcg", "precision"), strict=True):
        for policy in dict.fromkeys(line["policy"] for line in lines):
            found: dict[float, list[float]] = {}
            for line in lines:
                if line["policy"] == policy:
                    found.setdefault(line[over], []).append(line[field])
            xs = sorted(found)
            middle = [sorted(found[x])[len(found[x]) // 2] for x in xs]
            low, high = [min(found[x]) for x in xs], [max(found[x]) for x in xs]
            spread = [
                [m - a for m, a in zip(middle, low, strict=True)],
                [b - m for m, b in zip(middle, high, strict=True)],
            ]
            axis.errorbar(xs, middle, yerr=spread, label=policy, capsize=2)
        axis.set_xlabel(over)
        axis.set_ylabel(f"cumulated {field}")
    axes[0].legend(fontsize="small")
    save(figure, path)


def save(figure: Any, path: Path) -> None:
    """Write a picture and be done with it: the same picture gives the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot().close(figure)


def pyplot() -> Any:
    """The library, or what to install."""
    try:
        import matplotlib as mpl

        mpl.use("Agg")
        mpl.rcParams["svg.hashsalt"] = "skyband"  # ids by content, not by chance
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingLibraryError.of("a plot", "matplotlib") from error
    return plt
