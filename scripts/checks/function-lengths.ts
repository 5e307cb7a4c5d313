/** A node of the syntax tree, or another object in it. */
type SyntaxNode = Partial<Record<string, unknown>>;

/** A function of a source file. */
export interface FunctionLength {
  /** Its own name, or that of the variable or field with it; empty without one. */
  name: string;
  /** Line at which it begins, from 1. */
  line: number;
  /** Its lines without those of the functions inside it, each of which counts as one line. */
  ownLines: number;
}

const FUNCTIONS = new Set([
  'FunctionDeclaration',
  'FunctionExpression',
  'ArrowFunctionExpression',
  'ClassMethod',
  'PrivateMethod',
  'Constructor',
  'MethodProperty',
  'GetterProperty',
  'SetterProperty',
]);
/** Text before the first token, where the parser begins to count. */
const LEADING = /^(?:#!.*\n|\s+|\/\/.*\n?|\/\*[\s\S]*?\*\/)*/;

/**
 * Measures the functions of a file. Arrow functions of one line are left out: they are expressions.
 *
 * @param start position of the first token, as the parser counts: its positions grow from file to file
 */
export function measureFunctions(
  body: readonly unknown[],
  source: string,
  start: number,
): FunctionLength[] {
  const lineOf = createLineFinder(source, start);
  const found: FunctionLength[] = [];

  function walk(value: unknown, outer: FunctionLength | undefined, name: string): void {
    if (typeof value !== 'object' || value === null) return;
    if (Array.isArray(value)) {
      for (const child of value) walk(child, outer, name);
      return;
    }
    const node = value as SyntaxNode;
    const own = nameOf(node) ?? name;
    if (!FUNCTIONS.has(String(node.type))) {
      for (const child of Object.values(node)) walk(child, outer, own);
      return;
    }
    const span = node.span as { start: number; end: number };
    const line = lineOf(span.start);
    const lines = lineOf(span.end - 1) - line + 1;
    const inner = { name: own, line, ownLines: lines };
    if (lines > 1 || node.type !== 'ArrowFunctionExpression') found.push(inner);
    for (const child of Object.values(node)) walk(child, inner, '');
    if (outer !== undefined) outer.ownLines -= lines - 1;
  }

  walk(body, undefined, '');
  return found;
}

/** Returns the name that a node gives to the functions below it. */
function nameOf({ type, id, key, identifier }: SyntaxNode): string | undefined {
  const named = type === 'VariableDeclarator' ? id : (key ?? identifier);
  const value = (named as { value?: unknown } | null | undefined)?.value;
  return typeof value === 'string' ? value : undefined;
}

/** Creates the function that finds the line of a position, which counts bytes. */
function createLineFinder(source: string, start: number): (position: number) => number {
  const bytes = Buffer.from(source);
  const base = start - Buffer.byteLength(LEADING.exec(source)?.[0] ?? '');
  const breaks: number[] = [];
  for (let at = bytes.indexOf(10); at !== -1; at = bytes.indexOf(10, at + 1)) breaks.push(at);
  return (position) => {
    let low = 0;
    let high = breaks.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((breaks[middle] as number) < position - base) low = middle + 1;
      else high = middle;
    }
    return low + 1;
  };
}
