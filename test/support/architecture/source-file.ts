import { parseSync } from '@swc/core';

/** One source file as the rules see it. */
export interface SourceFile {
  /** From the repository's root, with `/`. */
  path: string;
  /** Every module it names: import, export from, import(), require(), import types. */
  imports: string[];
  /** Files it starts or loads by `new URL('./x', import.meta.url)`. */
  urls: string[];
  lines: number;
  touchesProcess: boolean;
  onlyReexports: boolean;
}

/**
 * Reads what the rules ask for out of a source text.
 *
 * @throws when the text is not TypeScript.
 */
export function describeFile(path: string, source: string): SourceFile {
  const body = parse(path, source);
  const imports: string[] = [];
  const urls: string[] = [];
  let touchesProcess = false;
  visit(body, (node) => {
    const imported = importOf(node);
    if (imported !== undefined) imports.push(imported);
    const url = urlOf(node);
    if (url !== undefined) urls.push(url);
    touchesProcess ||= isProcessAccess(node);
  });
  return {
    path,
    imports,
    urls,
    lines: source.split('\n').length - 1,
    touchesProcess: touchesProcess || imports.includes('node:process'),
    onlyReexports: body.length > 0 && body.every(isReexport),
  };
}

interface SyntaxNode {
  type: string;
  [key: string]: unknown;
}

function parse(path: string, source: string): SyntaxNode[] {
  const tsx = path.endsWith('.tsx');
  const module = parseSync(source, { syntax: 'typescript', tsx, target: 'es2024' });
  return module.body as unknown as SyntaxNode[];
}

function visit(value: unknown, see: (node: SyntaxNode) => void): void {
  if (typeof value !== 'object' || value === null) return;
  if (isNode(value)) see(value);
  for (const child of Object.values(value)) visit(child, see);
}

function isNode(value: unknown): value is SyntaxNode {
  return typeof value === 'object' && value !== null && 'type' in value;
}

function importOf(node: SyntaxNode): string | undefined {
  switch (node.type) {
    case 'ImportDeclaration':
    case 'ExportAllDeclaration':
    case 'ExportNamedDeclaration':
      return textOf(node.source);
    case 'TsImportType':
      return textOf(node.argument);
    case 'CallExpression':
      return isLoader(node.callee) ? firstArgument(node) : undefined;
    default:
      return undefined;
  }
}

function isLoader(callee: unknown): boolean {
  return isNode(callee) && (callee.type === 'Import' || isNamed(callee, 'require'));
}

function urlOf(node: SyntaxNode): string | undefined {
  if (node.type !== 'NewExpression' || !isNamed(node.callee, 'URL')) return undefined;
  const text = firstArgument(node);
  return text?.startsWith('.') ? text : undefined;
}

function isProcessAccess(node: SyntaxNode): boolean {
  if (node.type === 'VariableDeclarator') return isNamed(node.init, 'process');
  return node.type === 'MemberExpression' && isNamed(node.object, 'process');
}

function isNamed(node: unknown, name: string): boolean {
  return isNode(node) && node.type === 'Identifier' && node.value === name;
}

function firstArgument(call: SyntaxNode): string | undefined {
  const [first] = (call.arguments ?? []) as { expression: unknown }[];
  return textOf(first?.expression);
}

function textOf(node: unknown): string | undefined {
  return isNode(node) && node.type === 'StringLiteral' ? String(node.value) : undefined;
}

function isReexport(node: SyntaxNode): boolean {
  return node.type === 'ExportAllDeclaration' || importOf(node) !== undefined;
}
