// Before the first paint: the theme that was chosen last, if any.
try {
  const theme = localStorage.getItem("skyband-theme");
  if (theme) document.documentElement.dataset.theme = theme;
} catch { /* no storage: the system's choice */ }
