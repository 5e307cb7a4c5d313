// Merges renderings of kustomize into templates of Helm, and prints them.

import { isDeepStrictEqual } from 'node:util';
import { stringify } from 'yaml';

export type Plain = null | boolean | number | string | Plain[] | PlainMap;
export interface PlainMap {
  [key: string]: Plain;
}
/** A template: YAML with conditions and expressions. */
export type Node = Plain | Guarded | Text | Node[] | { [key: string]: Node };

/** A part that is there while a condition holds, and another one else. */
export class Guarded {
  readonly when: string;
  readonly node: Node;
  readonly otherwise: Node | undefined;
  constructor(when: string, node: Node, otherwise?: Node) {
    this.when = when;
    this.node = node;
    this.otherwise = otherwise;
  }
}

/**
 * An expression in a line, or lines of the template's language; `INDENT` in them is their indentation, `INDENT+2` that of what
 * they hold.
 */
export class Text {
  readonly text: string;
  readonly isBlock: boolean;
  constructor(text: string, isBlock = false) {
    this.text = text;
    this.isBlock = isBlock;
  }
}

/** What turns components on: a value that is set, or one that `is` a certain one and not `none`. */
export interface Toggle {
  value: string;
  is?: string;
  components: readonly string[];
}

/** A value in a rendering: that of the base if there is no toggle. */
export interface Cell {
  toggle?: Toggle;
  value: Plain | undefined;
}
type PresentCell = Cell & { value: Plain };

/** Merges renderings that have one toggle on each, so that any of them may be on. */
export class Templates {
  readonly #toggles: readonly Toggle[];

  constructor(toggles: readonly Toggle[]) {
    this.#toggles = toggles;
  }

  /** Merges a value that some renderings have. The first cell is what holds while no toggle of the others is on. */
  merge(cells: readonly Cell[]): Node {
    const present = cells.filter((cell): cell is PresentCell => cell.value !== undefined);
    const node = this.#mergePresent(present);
    if (present.length === cells.length) return node;
    const absent = cells.filter((cell) => cell.value === undefined);
    const isUsual = cells[0]?.value !== undefined;
    return new Guarded(isUsual ? this.#none(absent) : this.#any(present), node);
  }

  #mergePresent(cells: readonly PresentCell[]): Node {
    const values = cells.map(({ value }) => value);
    const [first = null] = values;
    if (values.every((value) => isDeepStrictEqual(value, first))) return first;
    if (values.every(isMap)) return this.#mergeMaps(cells, values);
    if (values.every(isNamedList)) {
      return Object.values(this.#mergeMaps(cells, values.map(byName)));
    }
    if (values.every(Array.isArray) && new Set(values.map((list) => list.length)).size === 1) {
      return (first as Plain[]).map((_, index) =>
        this.merge(cells.map(({ toggle, value }) => cell(toggle, (value as Plain[])[index]))),
      );
    }
    const other = values.find((value) => !isDeepStrictEqual(value, first)) ?? null;
    const isOther = ({ value }: Cell) => isDeepStrictEqual(value, other);
    const rest = cells.filter((one) => !isOther(one));
    return new Guarded(this.#any(cells.filter(isOther)), other, this.#mergePresent(rest));
  }

  #mergeMaps(cells: readonly Cell[], maps: readonly PlainMap[]): Record<string, Node> {
    const keys = maps.reduce<string[]>((all, map) => insertNew(all, Object.keys(map)), []);
    const entries = keys.map((key) => {
      const ofKey = cells.map(({ toggle }, index) => cell(toggle, maps[index]?.[key]));
      return [key, this.merge(ofKey)] as const;
    });
    return Object.fromEntries(entries);
  }

  /** Writes the condition that a toggle is on. */
  #any(cells: readonly Cell[]): string {
    return join('or', this.#describe(cells, { one: 'eq', all: 'ne', set: '' }));
  }

  /** Writes the condition that no toggle is on. */
  #none(cells: readonly Cell[]): string {
    return join('and', this.#describe(cells, { one: 'ne', all: 'eq', set: 'not ' }));
  }

  #describe(cells: readonly Cell[], words: { one: string; all: string; set: string }): string[] {
    const toggles = cells.flatMap(({ toggle }) => toggle ?? []);
    const conditions = toggles.map(({ value, is }) => {
      if (is === undefined) return `${words.set}.Values.${value}`;
      const ofValue = this.#toggles.filter((one) => one.value === value);
      return ofValue.every((one) => toggles.includes(one))
        ? `${words.all} .Values.${value} "none"`
        : `${words.one} .Values.${value} ${JSON.stringify(is)}`;
    });
    return [...new Set(conditions)];
  }
}

/** Prints a template. @returns its lines */
export function print(node: Node, indent = 0): string[] {
  const pad = ' '.repeat(indent);
  if (Array.isArray(node)) {
    return printParts(node, pad, (item) => {
      if (isInline(item)) return [`${pad}- ${printInline(item)}`];
      const [first = '', ...others] = print(isMap(item) ? startWithSure(item) : item, indent + 2);
      return [`${pad}- ${first.trimStart()}`, ...others];
    });
  }
  if (!isMap(node)) throw new Error(`This is no map and no list: ${JSON.stringify(node)}`);
  const entries = Object.entries(node).map(([key, value]) =>
    isOptional(value) ? new Guarded(value.when, { [key]: value.node }) : { [key]: value },
  );
  return printParts(entries, pad, (entry) =>
    Object.entries(entry as Record<string, Node>).flatMap(([key, value]) =>
      printEntry(key, value, indent),
    ),
  );
}

/** Moves an entry that is always there to the front: an item of a list begins with it. */
function startWithSure(map: Record<string, Node>): Record<string, Node> {
  const sure = Object.entries(map).find(([, value]) => !isOptional(value) && !isBlock(value));
  return sure === undefined ? map : { [sure[0]]: sure[1], ...map };
}

/** Prints the parts of a map or list; neighbours with the same condition share it. */
function printParts(parts: readonly Node[], pad: string, printPart: (part: Node) => string[]) {
  let open: string | undefined;
  const lines: string[] = [];
  const setOpen = (when: string | undefined) => {
    if (when === open) return;
    if (open !== undefined) lines.push(`${pad}{{- end }}`);
    if (when !== undefined) lines.push(`${pad}{{- if ${when} }}`);
    open = when;
  };
  for (const part of parts) {
    const isOnlyThen = isOptional(part);
    setOpen(isOnlyThen ? part.when : undefined);
    lines.push(...printPart(isOnlyThen ? part.node : part));
  }
  setOpen(undefined);
  return lines;
}

function printEntry(key: string, value: Node, indent: number): string[] {
  const pad = ' '.repeat(indent);
  const name = printScalar(key);
  if (isBlock(value)) return printBlock(value, indent);
  if (isInline(value)) return [`${pad}${name}: ${printInline(value)}`];
  if (!(value instanceof Guarded)) return [`${pad}${name}:`, ...print(value, indent + 2)];
  const inner = `${pad}  `;
  return [
    `${pad}${name}:`,
    `${inner}{{- ${value.when.startsWith('with ') ? '' : 'if '}${value.when} }}`,
    ...(isBlock(value.node) ? printBlock(value.node, indent + 2) : print(value.node, indent + 2)),
    `${inner}{{- else }}`,
    ...print(value.otherwise ?? [], indent + 2),
    `${inner}{{- end }}`,
  ];
}

function printBlock({ text }: Text, indent: number): string[] {
  const lines = text.replaceAll(/INDENT(\+2)?/g, (_, more) => String(indent + (more ? 2 : 0)));
  return lines.split('\n').map((line) => `${' '.repeat(indent)}${line}`);
}

function isInline(node: Node): boolean {
  if (node instanceof Guarded)
    return node.otherwise !== undefined && isInline(node.node) && isInline(node.otherwise);
  if (node instanceof Text) return !node.isBlock;
  return node === null || typeof node !== 'object' || Object.keys(node).length === 0;
}

function printInline(node: Node): string {
  if (node instanceof Text) return `{{ ${node.text} }}`;
  if (node instanceof Guarded)
    return `{{ if ${node.when} }}${printInline(node.node)}{{ else }}${printInline(node.otherwise ?? null)}{{ end }}`;
  return printScalar(node as Plain);
}

/** Prints as YAML 1.1, which Helm reads. */
function printScalar(value: Plain): string {
  const text = stringify(value, { version: '1.1', lineWidth: 0 }).trimEnd();
  if (text.includes('{{') || text.includes('\n'))
    throw new Error(`A template can't hold this, so put it into a file: ${text}`);
  return text;
}

function isOptional(node: Node): node is Guarded {
  return node instanceof Guarded && node.otherwise === undefined;
}

function isBlock(node: Node): node is Text {
  return node instanceof Text && node.isBlock;
}

export function isMap<T extends Node>(node: T): node is T & Record<string, T> {
  return node !== null && typeof node === 'object' && node.constructor === Object;
}

/** Returns the name of a list's item, as of a variable, or the key, as of a Secret's file. */
export function nameOf(item: Node): string | undefined {
  if (!isMap(item)) return undefined;
  const name = item.name ?? item.key;
  return typeof name === 'string' ? name : undefined;
}

function isNamedList(value: Plain): value is PlainMap[] {
  return Array.isArray(value) && value.every((item) => nameOf(item) !== undefined);
}

function byName(value: Plain): PlainMap {
  const items = isNamedList(value) ? value : [];
  return Object.fromEntries(items.map((item) => [nameOf(item), item]));
}

/** Adds the keys that a list lacks, each behind the one that precedes it in its own list. */
function insertNew(all: readonly string[], keys: readonly string[]): string[] {
  return keys.reduce(
    (list, key, index) =>
      list.includes(key) ? list : list.toSpliced(list.indexOf(keys[index - 1] ?? '') + 1, 0, key),
    [...all],
  );
}

function cell(toggle: Toggle | undefined, value: Plain | undefined): Cell {
  return { ...(toggle && { toggle }), value };
}

function join(word: string, conditions: readonly string[]): string {
  const [first = ''] = conditions;
  if (conditions.length === 1) return first;
  return [word, ...conditions.map((one) => (one.includes(' ') ? `(${one})` : one))].join(' ');
}
