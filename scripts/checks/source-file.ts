import { parseSync } from '@swc/core';

export interface SyntaxNode {
  type: string;
  [key: string]: unknown;
}

/** A parsed file, as the rules read it. */
export interface SourceFile {
  /** From the repository's root, with `/`. */
  path: string;
  source: string;
  /** Statements of the module. */
  body: SyntaxNode[];
  /** All nodes, each before those inside it. */
  nodes: SyntaxNode[];
  /** Position at which the module begins, as the parser counts: its positions grow from file to file. */
  start: number;
  /** Every module that it names: import, export from, import(), require(), import types. */
  imports: string[];
}

/** Parses a source text. @throws when it is not TypeScript */
export function parseFile(path: string, source: string): SourceFile {
  const tsx = path.endsWith('.tsx');
  const module = parseSync(source, { syntax: 'typescript', tsx, target: 'es2024' });
  const body = module.body as unknown as SyntaxNode[];
  const nodes = listNodes(body);
  const imports = nodes.map(importedModule).filter((name) => name !== undefined);
  return { path, source, body, nodes, start: module.span.start, imports };
}

function listNodes(value: unknown): SyntaxNode[] {
  if (typeof value !== 'object' || value === null) return [];
  const inside = Object.values(value).flatMap(listNodes);
  return isNode(value) ? [value, ...inside] : inside;
}

export function isNode(value: unknown): value is SyntaxNode {
  return typeof value === 'object' && value !== null && 'type' in value;
}

export function isNamed(node: unknown, name: string): boolean {
  return isNode(node) && node.type === 'Identifier' && node.value === name;
}

/** Returns the module that a node imports. */
export function importedModule(node: SyntaxNode): string | undefined {
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

/** Lists the names that a statement exports. */
export function exportedNames({ type, declaration, specifiers }: SyntaxNode): string[] {
  if (type === 'ExportNamedDeclaration')
    return (specifiers as SyntaxNode[]).flatMap(({ exported, orig }) => nameOf(exported ?? orig));
  if (type !== 'ExportDeclaration' || !isNode(declaration)) return [];
  const named = (declaration.declarations as SyntaxNode[] | undefined) ?? [declaration];
  return named.flatMap(({ identifier, id }) => nameOf(identifier ?? id));
}

function nameOf(node: unknown): string[] {
  return isNode(node) && typeof node.value === 'string' ? [node.value] : [];
}

/** Lists the files that a file starts or loads by `new URL('./x', import.meta.url)`. */
export function listUrls({ nodes }: SourceFile): string[] {
  return nodes
    .filter(({ type, callee }) => type === 'NewExpression' && isNamed(callee, 'URL'))
    .flatMap((node) => firstArgument(node) ?? [])
    .filter((url) => url.startsWith('.'));
}

function firstArgument(call: SyntaxNode): string | undefined {
  const [first] = (call.arguments ?? []) as { expression: unknown }[];
  return textOf(first?.expression);
}

function textOf(node: unknown): string | undefined {
  return isNode(node) && node.type === 'StringLiteral' ? String(node.value) : undefined;
}
