// Reads what is drawn, panel by panel: texts and their places, colours, links, legends with their pixels, and what is written on
// canvases. An expression: its value is the list.
(() => {
  const box = ({ left, top, right, bottom }) => [left, top, right, bottom];
  const text = (one) => one.innerText.trim();
  // Of the text itself, also where its element cuts it off.
  const extent = (one) => { const range = document.createRange(); range.selectNodeContents(one); return range.getBoundingClientRect(); };
  const cut = (inner, outer) => inner.width > 0 && (inner.right > outer.right + 1 || inner.bottom > outer.bottom + 1 || inner.top < outer.top - 1);
  const shortens = (one) => getComputedStyle(one).overflowX === 'hidden' && one.scrollWidth > one.clientWidth;
  const cell = (one) => {
    const words = document.createTreeWalker(one, NodeFilter.SHOW_TEXT), frame = one.getBoundingClientRect();
    let clipped = false;
    for (let node = words.nextNode(); node; node = words.nextNode()) {
      clipped ||= cut(extent(node), frame);
      // An element between may be narrower than the cell, and end its text with an ellipsis.
      for (let inner = node.parentElement; inner !== one; inner = inner.parentElement) clipped ||= shortens(inner);
    }
    return { text: text(one), box: box(frame), clipped, colour: getComputedStyle(one).backgroundColor, href: one.querySelector('a')?.getAttribute('href') ?? null };
  };
  const rgb = (css) => css.match(/\d+/g).slice(0, 3).map(Number);
  // How many pixels of the panel's canvases have this colour; a filled layer is translucent, so its alpha may be lower.
  const pixels = (images, [r, g, b]) => {
    let count = 0;
    for (const image of images) {
      for (let at = 0; at < image.length; at += 4) {
        if (image[at + 3] > 150 && Math.abs(image[at] - r) < 9 && Math.abs(image[at + 1] - g) < 9 && Math.abs(image[at + 2] - b) < 9) count += 1;
      }
    }
    return count;
  };
  return [...document.querySelectorAll('[data-panel]')].map((panel) => {
    const table = panel.querySelector('[role=table]');
    const canvases = [...panel.querySelectorAll('canvas')].filter((one) => one.width && one.height);
    const images = panel.dataset.type === 'timeseries' ? canvases.map((one) => one.getContext('2d').getImageData(0, 0, one.width, one.height).data) : [];
    const heading = panel.querySelector('h2');
    return {
      title: panel.dataset.panel,
      type: panel.dataset.type,
      box: box(panel.getBoundingClientRect()),
      text: text(panel),
      marks: window.__MARKED__[panel.dataset.panel] ?? 0,
      heading: { text: text(heading), clipped: cut(extent(heading), panel.getBoundingClientRect()) || heading.scrollWidth > heading.clientWidth + 1 },
      legend: [...panel.querySelectorAll('[data-testid="series-icon"]')].map((icon) => {
        const row = icon.closest('tr'), label = row.querySelector('button'), colour = rgb(icon.style.background);
        return { name: label.title, colour, box: box(row.getBoundingClientRect()), pixels: pixels(images, colour) };
      }),
      heads: table ? [...table.querySelectorAll('[role=columnheader]')].map(cell) : [],
      rows: table ? [...table.querySelectorAll('[role=row]')].map((row) => [...row.querySelectorAll('[role=cell]')].map(cell)).filter((row) => row.length) : [],
      tiles: [...panel.querySelectorAll('[data-tile]')].map((one) => ({ text: text(one), colour: getComputedStyle(one.firstElementChild).backgroundColor, image: getComputedStyle(one.firstElementChild).backgroundImage })),
      written: window.__WRITTEN__.filter(([canvas]) => canvases.includes(canvas)).map((one) => one[1]),
    };
  });
})()
