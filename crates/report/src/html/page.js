// Sorts and filters the tables, turns flame graphs around, shows the numbers of heat maps; all by keys, too.
// Without it all of them can be read as they are.
(() => {
  'use strict';

  const value = (row, at) => {
    const cell = row.cells[at];
    if (cell.dataset.v === undefined) return cell.textContent.trim().toLowerCase();
    return cell.dataset.v === '' ? NaN : +cell.dataset.v;
  };
  const order = new Intl.Collator('en', { numeric: true });

  for (const table of document.querySelectorAll('table.sortable')) {
    const heads = [...table.tHead.rows[0].cells];
    const body = table.tBodies[0];
    heads.forEach((head, at) => {
      if (head.classList.contains('fixed')) return;
      const button = document.createElement('button');
      button.type = 'button';
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener('click', () => {
        const was = head.getAttribute('aria-sort');
        // Numbers from the largest, names from A.
        const falling = was ? was === 'ascending' : head.classList.contains('num');
        heads.forEach((other) => other.removeAttribute('aria-sort'));
        head.setAttribute('aria-sort', falling ? 'descending' : 'ascending');
        const rows = [...body.rows].map((row) => [value(row, at), row]);
        const sign = falling ? -1 : 1;
        // What was not measured comes last, either way.
        const last = (a, b) => Number.isNaN(a) - Number.isNaN(b);
        rows.sort(([a], [b]) => last(a, b) || sign * (typeof a === 'number' ? a - b : order.compare(a, b)) || 0);
        body.append(...rows.map(([, row]) => row));
      });
    });
  }

  for (const part of document.querySelectorAll('.table-part')) {
    const input = part.querySelector('.filter');
    if (!input) continue;
    const shown = part.querySelector('.shown');
    const rows = [...part.querySelector('tbody').rows].map((row) => [row, row.textContent.toLowerCase()]);
    // Shares stand in the first column, where there are any.
    const shares = rows.length > 0 && rows[0][0].cells[0].classList.contains('bar');
    part.querySelector('.tools').hidden = false;
    input.addEventListener('input', () => {
      // One term, or several with | between.
      const wanted = input.value.toLowerCase().split('|').map((term) => term.trim()).filter((term) => term !== '');
      let share = 0, number = 0;
      for (const [row, text] of rows) {
        const fits = wanted.length === 0 || wanted.some((term) => text.includes(term));
        row.hidden = !fits;
        if (fits) { share += +row.cells[0].dataset.v; number += 1; }
      }
      const found = `${number} ${number === 1 ? 'row' : 'rows'}`;
      shown.textContent = wanted.length === 0 ? '' : shares ? `${(share * 100).toFixed(2)}% in ${found}` : found;
    });
  }

  // A slash goes to the field that filters or searches what is in sight, else to the first.
  document.addEventListener('keydown', (key) => {
    if (key.key !== '/' || key.ctrlKey || key.altKey || key.metaKey || key.target.matches('input')) return;
    const fields = [...document.querySelectorAll('input[type=search]')].filter((one) => one.offsetParent);
    const part = (field) => field.closest('section').getBoundingClientRect();
    const field = fields.find((one) => part(one).bottom > innerHeight / 3) || fields[0];
    if (!field) return;
    key.preventDefault();
    field.focus();
    field.select();
  });

  // What is wider or higher than its box can be scrolled by keys if something in it can have the focus.
  for (const box of document.querySelectorAll('.wide, .picture')) {
    if (!box.querySelector('button, a, summary, [tabindex]')) box.tabIndex = 0;
  }

  // Of several flame graphs one is shown; what was searched for in it is searched for in the next one.
  for (const choice of document.querySelectorAll('.switch')) {
    const section = choice.parentElement;
    const parts = [...section.querySelectorAll('.flame-part')];
    choice.hidden = false;
    choice.addEventListener('change', ({ target }) => {
      const wanted = parts.find((part) => !part.hidden).querySelector('input').value;
      parts.forEach((part) => { part.hidden = part.dataset.width !== target.value; });
      section.dispatchEvent(new CustomEvent('flame-search', { bubbles: true, detail: wanted }));
    });
  }

  // Other forms of a flame graph come as numbers, and are drawn when they are first asked for.
  const percent = (share) => {
    // Of two that are equally near, the even one, as in the table.
    const value = share * 100;
    return `${(value * 8 % 4 === 1 ? value - 1e-9 : value).toFixed(2)}%`;
  };
  const draw = (data, model) => {
    const next = []; // where the next box of each depth begins
    const boxes = [];
    for (let at = 0; at < data.boxes.length; at += 4) {
      const [name, depth, weight, samples] = data.boxes.slice(at, at + 4);
      const start = next[depth] || 0;
      next[depth] = start + weight;
      next[depth + 1] = start;
      if (!data.names[name]) continue; // a gap
      const [text, module, color] = data.names[name];
      const box = model.cloneNode(true);
      const places = { class: 'b', 'data-d': depth, x: `${start / data.total * 100}%`, y: depth * data.pitch,
        width: `${weight / data.total * 100}%`, style: '' };
      for (const [key, value] of Object.entries(places)) box.setAttribute(key, value);
      box.querySelector('title').textContent = `${text}\n${module ? `${module}: ` : ''}${percent(weight / data.total)}, `
        + `${samples.toLocaleString('en-US')} samples`;
      box.querySelector('rect').setAttribute('fill', color);
      boxes.push(box);
    }
    // By depth, as the other graph.
    boxes.sort((a, b) => a.dataset.d - b.dataset.d);
    return { boxes, height: data.height };
  };
  for (const part of document.querySelectorAll('.flame-part')) {
    const forms = Object.fromEntries([...part.querySelectorAll('.flame-data')].map((one) => [one.dataset.form, one]));
    const svg = part.querySelector('svg.flame');
    const graphs = { callees: { boxes: [...svg.children], height: svg.getAttribute('height') } };
    for (const button of part.querySelectorAll('button[data-way]')) {
      button.addEventListener('click', () => {
        const way = button.dataset.way;
        graphs[way] = graphs[way] || draw(JSON.parse(forms[way].textContent), svg.querySelector('.b'));
        for (const one of part.querySelectorAll('[data-way]')) {
          if (one.matches('button')) one.setAttribute('aria-pressed', one === button);
          else one.hidden = one.dataset.way !== way;
        }
        svg.dispatchEvent(new CustomEvent('flame-boxes', { detail: { ...graphs[way], way } }));
      });
    }
  }

  // A function of the table is looked for in the flame graph beside it.
  for (const table of document.querySelectorAll('table.functions')) {
    const event = table.closest('.event');
    const flame = () => event.querySelector('.flame-part:not([hidden])');
    const find = (cell) => {
      event.dispatchEvent(new CustomEvent('flame-search', { bubbles: true, detail: cell.dataset.find || cell.textContent }));
      flame().scrollIntoView({ block: 'start' });
    };
    // One stop for the Tab key; arrows go from row to row.
    const cells = () => [...table.tBodies[0].rows].filter((row) => !row.hidden).map((row) => row.cells[row.cells.length - 1]);
    cells().forEach((cell, at) => {
      cell.tabIndex = at ? -1 : 0;
      cell.title = 'Find in the flame graph';
    });
    const go = (from, by) => {
      const all = cells();
      const to = all[all.indexOf(from) + by];
      if (!to) return;
      for (const cell of table.querySelectorAll('td.name[tabindex="0"]')) cell.tabIndex = -1;
      to.tabIndex = 0;
      to.focus();
    };
    // A filter may have hidden the one that Tab stops at.
    event.addEventListener('input', () => {
      const [first] = cells();
      const stop = table.querySelector('td.name[tabindex="0"]');
      if (!first || !stop.parentElement.hidden) return;
      stop.tabIndex = -1;
      first.tabIndex = 0;
    });
    table.addEventListener('click', (click) => {
      const row = click.target.closest('tbody tr');
      if (row && !click.target.closest('a, button') && !String(getSelection())) find(row.cells[row.cells.length - 1]);
    });
    table.addEventListener('keydown', (key) => {
      if (!key.target.matches('td.name') || key.altKey || key.ctrlKey || key.metaKey) return;
      const by = { ArrowDown: 1, ArrowUp: -1 }[key.key];
      if (key.key === 'Enter') find(key.target);
      else if (by) { go(key.target, by); key.preventDefault(); }
    });
  }

  for (const part of document.querySelectorAll('.heat-part')) {
    const source = part.querySelector('.heat-data');
    if (!source) continue;
    const data = JSON.parse(source.textContent);
    const map = part.querySelector('.map');
    const detail = part.querySelector('.detail');
    const seconds = (at) => (at * data.column_s).toFixed(data.column_s < 0.01 ? 4 : 3);
    const tell = (row, column) => {
      const marked = data.marks && data.marks[row][column];
      detail.textContent = `${data.row} ${data.rows[row]}, ${seconds(column)} s to ${seconds(column + 1)} s: `
        + `${data.values[row][column]} ${data.values[row][column] === 1 ? data.unit.replace(/s$/, '') : data.unit}`
        + (marked ? `, ${marked} ${data.mark}` : '');
    };
    const clamp = (at, of) => Math.max(0, Math.min(of - 1, at));
    map.addEventListener('mousemove', (move) => {
      const area = map.getBoundingClientRect();
      const row = clamp(Math.floor((move.clientY - area.top) / area.height * data.rows.length), data.rows.length);
      const columns = data.values[row].length;
      tell(row, clamp(Math.floor((move.clientX - area.left) / area.width * columns), columns));
    });
    // By keys: a frame goes from cell to cell.
    let row = 0, column = 0;
    const cursor = document.createElementNS(map.namespaceURI, 'rect');
    for (const [name, value] of [['class', 'cursor'], ['width', 1], ['height', 1]]) cursor.setAttribute(name, value);
    const show = () => {
      cursor.setAttribute('x', column);
      cursor.setAttribute('y', row);
      map.append(cursor);
      tell(row, column);
    };
    map.tabIndex = 0;
    map.addEventListener('focus', show);
    map.addEventListener('blur', () => cursor.remove());
    map.addEventListener('keydown', (key) => {
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[key.key];
      if (!step) return;
      key.preventDefault();
      row = clamp(row + step[0], data.rows.length);
      column = clamp(column + step[1], data.values[row].length);
      show();
    });
  }
})();
