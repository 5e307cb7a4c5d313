import { isNode, type SourceFile, type SyntaxNode } from './source-file.ts';

/** Most lines of a function without those of the functions inside it, each of which counts as one line. */
const MAX_LINES = 60;
const FUNCTIONS = new Set([
  ...['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression', 'ClassMethod'],
  ...['PrivateMethod', 'Constructor', 'MethodProperty', 'GetterProperty', 'SetterProperty'],
]);
/** Text before the first token, where the parser begins to count. */
const LEADING = /^(?:#!.*\n|\s+|\/\/.*\n?|\/\*[\s\S]*?\*\/)*/;

/** Finds the long functions of a file, each as `line name has n lines`; the name may be that of a variable or field. */
export function findLongFunctions({ body, source, start }: SourceFile): string[] {
  const bytes = Buffer.from(source);
  const base = start - Buffer.byteLength(LEADING.exec(source)?.[0] ?? '');
  const countLines = (from: number, to: number) =>
    bytes.toString('latin1', from - base, to - base).split('\n').length;
  const found: string[] = [];

  /** @returns by how many lines the functions in a value make the one around them longer */
  function walk(value: unknown, name: string): number {
    if (typeof value !== 'object' || value === null) return 0;
    const own = isNode(value) ? (nameOf(value) ?? name) : name;
    const isFunction = isNode(value) && FUNCTIONS.has(value.type);
    const inside = Object.values(value)
      .map((child) => walk(child, isFunction ? '' : own))
      .reduce((sum, lines) => sum + lines, 0);
    if (!isFunction) return inside;
    const span = value.span as { start: number; end: number };
    const lines = countLines(span.start, span.end);
    const ownLines = lines - inside;
    if (ownLines > MAX_LINES)
      found.push(`${countLines(base, span.start)} ${own} has ${ownLines} lines`);
    return lines - 1;
  }

  walk(body, '');
  return found;
}

/** Returns the name that a node gives to the functions below it. */
function nameOf({ type, id, key, identifier }: SyntaxNode): string | undefined {
  const named = type === 'VariableDeclarator' ? id : (key ?? identifier);
  const value = (named as { value?: unknown } | null | undefined)?.value;
  return typeof value === 'string' ? value : undefined;
}
