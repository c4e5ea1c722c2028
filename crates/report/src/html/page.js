// Sorts and filters the tables, tells the numbers behind the map of CPUs. Without it all of them can
// be read as they are.
(() => {
  'use strict';

  const value = (row, at) => {
    const cell = row.cells[at];
    return cell.dataset.v === undefined ? cell.textContent.trim().toLowerCase() : +cell.dataset.v;
  };
  const order = new Intl.Collator('en', { numeric: true });

  for (const table of document.querySelectorAll('table.sortable')) {
    const heads = [...table.tHead.rows[0].cells];
    const body = table.tBodies[0];
    heads.forEach((head, at) => {
      const button = document.createElement('button');
      button.type = 'button';
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener('click', () => {
        const was = head.getAttribute('aria-sort');
        // Numbers from the largest, names from A.
        const falling = was ? was === 'ascending' : head.classList.contains('num');
        heads.forEach((other) => other.removeAttribute('aria-sort'));
        head.setAttribute('aria-sort', falling ? 'descending' : 'ascending');
        const rows = [...body.rows].map((row) => [value(row, at), row]);
        const sign = falling ? -1 : 1;
        rows.sort(([a], [b]) => sign * (typeof a === 'number' ? a - b : order.compare(a, b)));
        body.append(...rows.map(([, row]) => row));
      });
    });
  }

  for (const part of document.querySelectorAll('.table-part')) {
    const input = part.querySelector('.filter');
    if (!input) continue;
    const shown = part.querySelector('.shown');
    const rows = [...part.querySelector('tbody').rows].map((row) => [row, row.textContent.toLowerCase()]);
    part.querySelector('.tools').hidden = false;
    input.addEventListener('input', () => {
      const wanted = input.value.trim().toLowerCase();
      let share = 0, number = 0;
      for (const [row, text] of rows) {
        const fits = text.includes(wanted);
        row.hidden = !fits;
        if (fits) { share += +row.cells[0].dataset.v; number += 1; }
      }
      shown.textContent = wanted === '' ? ''
        : `${(share * 100).toFixed(2)} % in ${number} ${number === 1 ? 'row' : 'rows'}`;
    });
  }

  // A function of the table is looked for in the flame graph beside it.
  for (const table of document.querySelectorAll('table.functions')) {
    const event = table.closest('.event');
    const flame = event.querySelector('.flame-part');
    const find = (cell) => {
      event.dispatchEvent(new CustomEvent('flame-search', { bubbles: true, detail: cell.textContent }));
      flame.scrollIntoView({ block: 'start' });
    };
    for (const row of table.tBodies[0].rows) {
      const cell = row.cells[row.cells.length - 1];
      cell.tabIndex = 0;
      cell.title = 'Find in the flame graph';
    }
    table.addEventListener('click', (click) => {
      const cell = click.target.closest('td.name');
      if (cell && !String(getSelection())) find(cell);
    });
    table.addEventListener('keydown', (key) => {
      if (key.key === 'Enter' && key.target.matches('td.name')) find(key.target);
    });
  }

  for (const part of document.querySelectorAll('.heat-part')) {
    const source = part.querySelector('.heat-data');
    if (!source) continue;
    const data = JSON.parse(source.textContent);
    const map = part.querySelector('.map');
    const detail = part.querySelector('.detail');
    const seconds = (at) => (at * data.column_s).toFixed(data.column_s < 0.01 ? 4 : 3);
    map.addEventListener('mousemove', (move) => {
      const area = map.getBoundingClientRect();
      const clamp = (at, of) => Math.max(0, Math.min(of - 1, Math.floor(at * of)));
      const row = clamp((move.clientY - area.top) / area.height, data.rows.length);
      const column = clamp((move.clientX - area.left) / area.width, data.values[row].length);
      const marked = data.marks && data.marks[row][column];
      detail.textContent = `${data.row} ${data.rows[row]}, ${seconds(column)} s to ${seconds(column + 1)} s: `
        + `${data.values[row][column]} ${data.unit}`
        + (marked ? `, ${marked} ${data.mark}` : '');
    });
  }
})();
