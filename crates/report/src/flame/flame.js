// Zoom, search and keys for every flame graph of the document. Places and names are read from the
// boxes themselves: without this script the picture is complete.
(() => {
  'use strict';

  const NARROWEST = 3; // characters worth showing
  const BORDERED = 3; // pixels: a border would hide what is narrower

  class Flame {
    constructor(svg) {
      const part = svg.closest('.flame-part') || document;
      this.svg = svg;
      this.tools = part.querySelector('.tools');
      this.detail = part.querySelector('.detail');
      this.input = this.tools && this.tools.querySelector('input');
      this.reset = this.tools && this.tools.querySelector('.reset');
      this.matched = this.tools && this.tools.querySelector('.matched');
      const named = svg.closest('[id^="flame"]');
      this.place = named ? named.id : svg.closest('.alone') ? 'flame' : null;
      this.take([...svg.querySelectorAll('.b')]);
      this.listen();
    }

    // What is drawn from now on, not zoomed.
    take(elements) {
      this.boxes = elements.map((el) => {
        const title = el.querySelector('title');
        const about = title.textContent;
        return {
          el, about,
          name: about.split('\n')[0],
          text: el.querySelector('text'),
          depth: +el.dataset.d,
          x: parseFloat(el.getAttribute('x')),
          w: parseFloat(el.getAttribute('width')),
          shown: true, left: 0, width: 0,
        };
      });
      this.of = new Map(this.boxes.map((box) => [box.el, box]));
      this.zoom(this.boxes[0]);
      this.boxes.forEach((box, at) => {
        box.el.setAttribute('role', 'button');
        box.el.setAttribute('tabindex', at ? '-1' : '0');
        box.el.setAttribute('aria-label', box.about.replace('\n', ', '));
      });
    }

    // Other boxes take the place of these, which must not stay zoomed: they may come back. What was searched is
    // searched in them, too.
    replace({ boxes, height }) {
      this.zoom(this.boxes[0]);
      this.svg.replaceChildren(...boxes);
      this.svg.setAttribute('height', height);
      this.take(boxes);
      if (this.detail) this.detail.textContent = '';
      if (this.input) this.search(this.input.value);
    }

    listen() {
      const target = (event) => this.of.get(event.target.closest && event.target.closest('.b'));
      this.svg.addEventListener('click', (event) => {
        const box = target(event);
        if (box) { this.zoom(box); this.focus(box); }
      });
      const tell = (event) => {
        const box = target(event);
        if (box && this.detail) this.detail.textContent = box.about.replace('\n', '   ');
      };
      this.svg.addEventListener('mouseover', tell);
      this.svg.addEventListener('focusin', tell);
      this.svg.addEventListener('keydown', (event) => this.key(event, target(event)));
      this.svg.addEventListener('flame-boxes', (event) => { this.way = event.detail.way; this.replace(event.detail); });
      if (this.tools) {
        this.tools.hidden = false;
        this.input.addEventListener('input', () => this.search(this.input.value));
        this.reset.addEventListener('click', () => {
          // The button goes away, and the focus must not go with it.
          this.zoom(this.boxes[0]);
          this.focus(this.boxes[0]);
        });
      }
      let width = 0;
      new ResizeObserver(() => {
        const now = this.svg.getBoundingClientRect().width;
        if (now && now !== width) { width = now; this.label(); }
      }).observe(this.svg.parentElement || this.svg);
    }

    // The box takes the whole width; its callers too, paler; what is beside them is hidden.
    zoom(box) {
      this.root = box;
      const end = box.x + box.w;
      const slack = 1e-4;
      for (const one of this.boxes) {
        const caller = one.depth < box.depth && one.x <= box.x + slack && one.x + one.w >= end - slack;
        const below = one.depth >= box.depth && one.x >= box.x - slack && one.x + one.w <= end + slack;
        one.shown = caller || below;
        one.el.style.display = one.shown ? '' : 'none';
        one.el.classList.toggle('up', caller && box !== this.boxes[0]);
        if (!one.shown) continue;
        one.left = caller ? 0 : ((one.x - box.x) / box.w) * 100;
        one.width = caller ? 100 : (one.w / box.w) * 100;
        one.el.setAttribute('x', one.left + '%');
        one.el.setAttribute('width', one.width + '%');
      }
      if (this.reset) this.reset.hidden = box === this.boxes[0];
      this.label();
      this.keep();
    }

    // Names from below the outermost box to this one.
    path(box) {
      const middle = box.x + box.w / 2;
      const above = this.boxes.filter((one) => one.depth > 0 && one.depth <= box.depth && one.x <= middle && one.x + one.w > middle);
      return above.sort((a, b) => a.depth - b.depth).map((one) => one.name);
    }

    // The box that these names lead to.
    find(names) {
      let found = [this.boxes[0]];
      names.forEach((name, at) => {
        const inside = (one) => found.some((outer) => one.x >= outer.x - 1e-4 && one.x + one.w <= outer.x + outer.w + 1e-4);
        found = this.boxes.filter((one) => one.depth === at + 1 && one.name === name && inside(one));
      });
      return found[0];
    }

    // The address has the zoom and the search, for whoever it is sent to:
    // #flame-0?search=read&zoom=["main","parse"]&way=callers
    keep() {
      // Of several graphs one is seen.
      if (!this.settled || !this.place || !this.svg.getBoundingClientRect().width) return;
      const shown = new URLSearchParams();
      if (this.input && this.input.value.trim()) shown.set('search', this.input.value.trim());
      if (this.root !== this.boxes[0]) shown.set('zoom', JSON.stringify(this.path(this.root)));
      if (this.way && this.way !== 'callees') shown.set('way', this.way);
      const text = shown.toString();
      const known = location.hash.startsWith(`#${this.place}?`);
      if (!text && !known) return;
      // Some browsers refuse that for files of their own.
      try { history.replaceState(null, '', text ? `#${this.place}?${text}` : `#${this.place}`); } catch { /* as before */ }
    }

    // What the address asks for.
    recall() {
      const prefix = `#${this.place}?`;
      if (!this.place || !location.hash.startsWith(prefix)) return;
      const asked = new URLSearchParams(location.hash.slice(prefix.length));
      const way = asked.get('way');
      const part = this.svg.closest('.flame-part');
      const button = way && part && [...part.querySelectorAll('button[data-way]')].find((one) => one.dataset.way === way);
      if (button) button.click();
      let names = null;
      try { names = JSON.parse(asked.get('zoom')); } catch { /* nobody's words */ }
      const box = Array.isArray(names) ? this.find(names) : null;
      if (box) this.zoom(box);
      const search = asked.get('search');
      if (search && this.input) { this.input.value = search; this.search(search); }
      (this.svg.closest('.flame-part') || this.svg).scrollIntoView({ block: 'start' });
    }

    // Cuts every name to what its box has room for.
    label() {
      const whole = this.svg.getBoundingClientRect().width;
      if (!whole) return;
      const character = this.character();
      for (const one of this.boxes) {
        if (!one.shown) continue;
        const pixels = one.width / 100 * whole;
        one.el.classList.toggle('n', pixels < BORDERED);
        const room = Math.floor((pixels - 6) / character);
        let text = '';
        if (room >= NARROWEST) text = one.name.length <= room ? one.name : one.name.slice(0, room - 1) + '…';
        if (one.text.textContent !== text) one.text.textContent = text;
      }
    }

    character() {
      if (!this.advance) {
        const text = this.boxes[0].text;
        const before = text.textContent;
        text.textContent = 'mmmmmmmmmm';
        this.advance = text.getComputedTextLength() / 10 || 6.7;
        text.textContent = before;
      }
      return this.advance;
    }

    // Marks boxes whose name holds the text, or one of several with | between; tells the share of all of them, each
    // part once.
    search(text) {
      const terms = text.toLowerCase().split('|').map((term) => term.trim()).filter((term) => term !== '');
      const wanted = terms.join('|');
      const hits = [];
      for (const one of this.boxes) {
        const name = one.name.toLowerCase();
        const hit = one.depth > 0 && terms.some((term) => name.includes(term));
        one.el.classList.toggle('hit', hit);
        if (hit) hits.push(one);
      }
      this.svg.classList.toggle('searching', wanted !== '');
      this.keep();
      let share = 0, end = -1;
      for (const one of hits.sort((a, b) => a.x - b.x || b.w - a.w)) {
        share += Math.max(0, one.x + one.w - Math.max(end, one.x));
        end = Math.max(end, one.x + one.w);
      }
      if (!this.matched) return;
      this.matched.textContent = wanted === '' ? ''
        : `${share.toFixed(2)}% in ${hits.length} ${hits.length === 1 ? 'box' : 'boxes'}`;
    }

    // Arrows go to callers, callees and neighbors; Enter zooms, Escape goes back.
    key(event, box) {
      if (!box || event.altKey || event.ctrlKey || event.metaKey) return;
      const middle = box.left + 1e-6;
      const row = (depth) => this.boxes.filter((one) => one.shown && one.depth === depth);
      let next = null;
      switch (event.key) {
        case 'ArrowDown':
          next = row(box.depth + 1).find((one) => one.left >= box.left - 1e-6 && one.left < box.left + box.width);
          break;
        case 'ArrowUp':
          next = row(box.depth - 1).find((one) => one.left <= middle && one.left + one.width > middle);
          break;
        case 'ArrowRight':
          next = row(box.depth).find((one) => one.left > box.left);
          break;
        case 'ArrowLeft':
          next = row(box.depth).filter((one) => one.left < box.left).pop();
          break;
        case 'Enter': case ' ':
          this.zoom(box);
          next = box;
          break;
        case 'Escape':
          this.zoom(this.boxes[0]);
          next = box;
          break;
        default: return;
      }
      event.preventDefault();
      if (next) this.focus(next);
    }

    focus(box) {
      for (const one of this.boxes) if (one.el.getAttribute('tabindex') === '0') one.el.setAttribute('tabindex', '-1');
      box.el.setAttribute('tabindex', '0');
      box.el.focus({ preventScroll: false });
    }
  }

  const flames = [...document.querySelectorAll('svg.flame')]
    .filter((svg) => svg.querySelector('.b')).map((svg) => new Flame(svg));

  // Once all scripts have run: the switch between forms is another's.
  const recall = () => flames.forEach((flame) => flame.recall());
  const settle = () => {
    recall();
    flames.forEach((flame) => { flame.settled = true; });
  };
  if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', settle);
  else settle();
  addEventListener('hashchange', recall);

  // A picture of its own has no page around it that would know this key.
  document.addEventListener('keydown', (event) => {
    const [flame] = flames;
    if (event.key !== '/' || !flame || !flame.svg.closest('.alone') || event.target === flame.input) return;
    event.preventDefault();
    flame.input.focus();
  });

  // The table of functions searches here.
  document.addEventListener('flame-search', (event) => {
    for (const flame of flames) {
      if (flame.input && event.target.contains(flame.svg)) {
        flame.input.value = event.detail;
        flame.search(event.detail);
      }
    }
  });
})();
