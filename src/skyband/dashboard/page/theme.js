// Before the first paint: apply the theme that the user chose last.
try {
  const theme = localStorage.getItem("skyband-theme");
  if (theme) document.documentElement.dataset.theme = theme;
} catch { /* no storage: use the theme of the system */ }
