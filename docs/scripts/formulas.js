// Sets the TeX that pymdownx.arithmatex leaves in \( \) and \[ \].
for (const formula of document.querySelectorAll(".arithmatex")) {
  const written = formula.textContent.trim()
  katex.render(written.slice(2, -2), formula, { displayMode: written.startsWith("\\["), throwOnError: false })
}
