// What changes while an audit is at work: a part of the page is asked for again and again, and put in its place.
for (const place of document.querySelectorAll("[data-poll]")) {
  const gone = document.getElementById("gone");
  let before = "";
  const look = async () => {
    try {
      const answer = await fetch(place.dataset.poll, { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.statusText);
      const { html } = await answer.json();
      if (before && html !== before && !place.contains(document.activeElement)) {
        place.innerHTML = html;
        place.dispatchEvent(new Event("replaced"));
      }
      before = html;
      if (gone) gone.hidden = true;
    } catch {
      if (gone) gone.hidden = false;
    }
    setTimeout(look, 1000 * (document.hidden ? 5 : 1) * Number(place.dataset.every));
  };
  look();
}
