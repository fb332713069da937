"""skyband bench: the suites, as a table or as JSON lines; one file each."""

from __future__ import annotations

import typer

from skyband_lab.cli.bench import arrival, dashboard, gate, join, knn, load, peers, plan, slide, spark, view, workload

app = typer.Typer(help="Measure the engines on this machine.", no_args_is_help=True)
app.command("slide", help=slide.HELP)(slide.slide)
app.command("arrival", help=arrival.HELP)(arrival.arrival)
app.command("knn", help=knn.HELP)(knn.knn)
app.command("workload", help=workload.HELP)(workload.workload)
app.command("join", help=join.HELP)(join.join)
app.command("view", help=view.HELP)(view.view)
app.command("load", help=load.HELP)(load.load)
app.command("spark", help=spark.HELP)(spark.spark)
app.command("dashboard", help=dashboard.HELP)(dashboard.dashboard)
app.command("gate", help=gate.HELP)(gate.gate)
app.command("plan", help=plan.HELP)(plan.plan)
app.command("peers", help=peers.HELP)(peers.peers)
