// Tables: rows in an order, searched, and only as many in the page as it takes.

// Shows rows in a table, in the order that its user has chosen, and those that its user searches.
Web.rows = (table, rows) => {
  Web.given.set(table, rows);
  Web.arrange(table);
};

Web.given = new WeakMap();
Web.collator = new Intl.Collator(undefined, { numeric: true });

Web.arrange = (table) => {
  const { sort, search } = table.dataset;
  let rows = Web.given.get(table) ?? [];
  // A row that only says something has no cells.
  if (search) {
    rows = rows.filter(({ cells }) => !cells || cells.some((cell) => String(cell.text ?? cell).toLowerCase().includes(search)));
    if (rows.length === 0) rows = [Web.note(table, "No row matches.")];
  }
  if (sort && rows[0]?.cells) {
    const column = Math.abs(Number(sort)) - 1, sign = Math.sign(Number(sort));
    const compare = (one, other) => typeof one === "number" && typeof other === "number" ? one - other : Web.collator.compare(one, other);
    const found = rows.map((row) => [Web.value(row.cells[column]), row]);
    // Rows without a value are last in both orders.
    const known = found.filter(([value]) => value !== null), unknown = found.filter(([value]) => value === null);
    known.sort(([one], [other]) => sign * compare(one, other));
    rows = [...known, ...unknown].map(([, row]) => row);
  }
  Web.replace(table, rows);
};

// What a cell is sorted by; null if it has no value.
Web.value = (cell) => {
  if (cell.sort !== undefined) return cell.sort;
  const text = cell.text ?? cell;
  return text === "–" ? null : typeof text === "number" ? text : String(text);
};

// The columns of tables that are here as a whole are sorted by their heads: up, down, and as the table came.
Web.sorted = () => {
  for (const table of document.querySelectorAll("table[data-sorted]")) {
    const heads = [...table.tHead.rows[0].cells];
    const show = () => heads.forEach((head, index) => {
      const sort = Number(table.dataset.sort ?? 0);
      if (Math.abs(sort) === index + 1) head.setAttribute("aria-sort", sort > 0 ? "ascending" : "descending"); else head.removeAttribute("aria-sort");
    });
    heads.forEach((head, index) => {
      const column = index + 1;
      head.replaceChildren(Web.node("button", { type: "button", class: "sort", onclick: () => {
        const sort = Number(table.dataset.sort ?? 0);
        if (sort === -column) delete table.dataset.sort; else table.dataset.sort = sort === column ? -column : column;
        show();
        Web.arrange(table);
      } }, head.textContent));
    });
  }
  for (const input of document.querySelectorAll("input[data-search]")) {
    const table = Web.$(input.dataset.search);
    input.addEventListener("input", () => { table.dataset.search = input.value.trim().toLowerCase(); Web.arrange(table); });
  }
};

// Rows of a table: those of keys, whose nodes are kept while their content is the same, so that focus and selection stay. Of a long
// table only the rows near what is seen are in the page: browsers lay a table out as a whole whenever one of its rows changes.
Web.replace = (table, rows) => {
  Web.shown.set(table, rows);
  Web.show(table);
};

Web.shown = new Map();
// The most rows that are in the page as a whole, and how many are there on both sides of what is seen.
Web.WHOLE = 120;
Web.MARGIN = 20;

Web.show = (table) => {
  const rows = Web.shown.get(table), body = table.tBodies[0];
  if (rows.length <= Web.WHOLE) {
    table.removeAttribute("aria-rowcount");
    return Web.place(body, rows);
  }
  // Every row of a long table is as high as the others; the first ones say how high.
  const measured = () => [...body.rows].find((row) => row.rowIndex > 1 && row.dataset.key !== "" && !row.classList.contains("left-out"))?.getBoundingClientRect().height;
  if (!measured()) Web.place(body, rows.slice(0, Web.MARGIN).map((row, index) => ({ key: row.key, content: row.content, make: row.make, index })));
  const height = measured() || 30;
  const above = Math.floor(-body.getBoundingClientRect().top / height) - Web.MARGIN;
  const first = Math.max(0, Math.min(above, rows.length - Web.MARGIN)), end = Math.max(first, above) + Math.ceil(innerHeight / height) + 2 * Web.MARGIN;
  // The row of the focus stays: a key must not lead to the start of the page.
  const focused = rows.findIndex(({ key }) => key === document.activeElement?.closest("tr")?.dataset.key);
  const space = (name, count) => count <= 0 ? [] : [{
    key: `left out ${name}`,
    content: `${count * height}`,
    make: () => {
      const row = Web.node("tr", { class: "left-out", "aria-hidden": "true" });
      row.style.height = `${count * height}px`;
      return row;
    },
  }];
  const part = [], near = (from, to) => { for (let index = from; index < Math.min(to, rows.length); index += 1) part.push({ ...rows[index], index }); };
  let at = 0;
  const upTo = (name, from, to) => { part.push(...space(name, from - at)); near(from, to); at = Math.max(at, Math.min(to, rows.length)); };
  if (focused >= 0 && focused < first) upTo("before the focus", focused, focused + 1);
  upTo("before", first, end);
  if (focused >= end) upTo("after", focused, focused + 1);
  part.push(...space("at the end", rows.length - at));
  table.setAttribute("aria-rowcount", String(rows.length + 1));
  // Columns only grow: they do not move while one scrolls.
  for (const head of table.tHead.rows[0].cells) head.style.minWidth = `${head.offsetWidth}px`;
  return Web.place(body, part);
};

// Puts rows into the page with as few changes as it takes.
Web.place = (body, rows) => {
  const old = new Map([...body.children].map((row) => [row.dataset.key, row]));
  const wanted = rows.map(({ key, content, make, index }) => {
    const kept = old.get(key), row = kept && kept.dataset.content === content ? kept : make();
    if (row !== kept) { row.dataset.key = key; row.dataset.content = content; }
    if (index === undefined) row.removeAttribute("aria-rowindex"); else row.setAttribute("aria-rowindex", String(index + 2));
    return row;
  });
  const stays = new Set(wanted);
  for (const row of [...body.children]) if (!stays.has(row)) row.remove();
  let place = body.firstElementChild;
  for (const row of wanted) {
    // A row that is to come later makes way, and all behind it stay where they are.
    if (place !== row && place?.nextElementSibling === row) { place.remove(); place = row; }
    if (place === row) place = row.nextElementSibling; else body.insertBefore(row, place);
  }
  Web.scrollable();
};

// Long tables follow the page.
Web.follow = () => {
  let asked = false;
  const follow = () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      for (const [table, rows] of Web.shown) if (rows.length > Web.WHOLE) Web.show(table);
    });
  };
  addEventListener("scroll", follow, { passive: true });
  addEventListener("resize", () => {
    for (const table of Web.shown.keys()) for (const head of table.tHead.rows[0].cells) head.style.minWidth = "";
    follow();
  });
};

Web.row = (key, cells, attributes = {}) => ({
  key,
  cells,
  content: JSON.stringify([cells.map((cell) => cell.text ?? cell), attributes.class]),
  make: () => Web.node("tr", attributes, ...cells.map((cell) => {
    const { text = cell, number, title, node, head, className } = typeof cell === "object" ? cell : {};
    const classes = [number && "number", className].filter(Boolean).join(" ") || undefined;
    return Web.node(head ? "th" : "td", { class: classes, title, scope: head ? "row" : undefined }, node ? node() : String(text));
  })),
});

// A row whose cells are made when it comes into the page.
Web.later = (key, row) => {
  let made = null;
  const once = () => made ??= row();
  return { key, get content() { return once().content; }, make: () => once().make() };
};

// A cell with a number, sorted by it.
Web.number = (value, text = Pliant.count(value)) => ({ text, number: true, sort: value });

// One row that says that there is nothing.
Web.empty = (table, text) => Web.rows(table, [Web.note(table, text)]);

Web.note = (table, text) => {
  const columns = table.tHead.rows[0].cells.length;
  return { key: "", content: text, make: () => Web.node("tr", { class: "empty" }, Web.node("td", { colspan: columns }, text)) };
};

// A table that is wider than the page can be scrolled by keyboard.
Web.scrollable = () => {
  for (const node of document.querySelectorAll(".scroll")) {
    if (node.scrollWidth > node.clientWidth + 1) node.tabIndex = 0; else node.removeAttribute("tabindex");
  }
};
