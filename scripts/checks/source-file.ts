import { parseSync } from '@swc/core';
import { type FunctionLength, measureFunctions } from './function-lengths.ts';

/** The properties of a source file that the rules check. */
export interface SourceFile {
  /** From the repository's root, with `/`. */
  path: string;
  /** Every module that it names: import, export from, import(), require(), import types. */
  imports: string[];
  /** The modules that its import declarations load: those that import more than types. */
  loads: string[];
  /** The modules of its import types: `import('x').Y`. */
  importTypes: string[];
  /** The names that it exports. */
  exports: string[];
  /** Files that it starts or loads by `new URL('./x', import.meta.url)`. */
  urls: string[];
  lines: number;
  functions: FunctionLength[];
  touchesProcess: boolean;
  /** Takes the database from a store. */
  takesDatabase: boolean;
  onlyReexports: boolean;
}

/**
 * Parses a source text.
 *
 * @throws when the text is not TypeScript.
 */
export function describeFile(path: string, source: string): SourceFile {
  const { body, start } = parse(path, source);
  const imports: string[] = [];
  const importTypes: string[] = [];
  const loads: string[] = [];
  const urls: string[] = [];
  let touchesProcess = false;
  let takesDatabase = false;
  visit(body, (node) => {
    const imported = importedModule(node);
    if (imported !== undefined) imports.push(imported);
    if (imported !== undefined && node.type === 'TsImportType') importTypes.push(imported);
    if (imported !== undefined && isLoadingImport(node)) loads.push(imported);
    const url = importedUrl(node);
    if (url !== undefined) urls.push(url);
    touchesProcess ||= isProcessAccess(node);
    takesDatabase ||= isDatabaseAccess(node);
  });
  return {
    path,
    imports,
    loads,
    importTypes,
    exports: body.flatMap(exportedNames),
    urls,
    lines: source.split('\n').length - 1,
    functions: measureFunctions(body, source, start),
    touchesProcess: touchesProcess || imports.includes('node:process'),
    takesDatabase,
    onlyReexports: body.length > 0 && body.every(isReexport),
  };
}

interface SyntaxNode {
  type: string;
  [key: string]: unknown;
}

function parse(path: string, source: string): { body: SyntaxNode[]; start: number } {
  const tsx = path.endsWith('.tsx');
  const module = parseSync(source, { syntax: 'typescript', tsx, target: 'es2024' });
  return { body: module.body as unknown as SyntaxNode[], start: module.span.start };
}

function visit(value: unknown, onNode: (node: SyntaxNode) => void): void {
  if (typeof value !== 'object' || value === null) return;
  if (isNode(value)) onNode(value);
  for (const child of Object.values(value)) visit(child, onNode);
}

function isNode(value: unknown): value is SyntaxNode {
  return typeof value === 'object' && value !== null && 'type' in value;
}

function importedModule(node: SyntaxNode): string | undefined {
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

/** Checks for an import declaration that is not only of types: it stays when types are stripped. */
function isLoadingImport({ type, typeOnly }: SyntaxNode): boolean {
  return type === 'ImportDeclaration' && typeOnly !== true;
}

function exportedNames({ type, declaration, specifiers }: SyntaxNode): string[] {
  if (type === 'ExportNamedDeclaration') {
    return (specifiers as SyntaxNode[]).flatMap(({ exported, orig }) => nameOf(exported ?? orig));
  }
  if (type !== 'ExportDeclaration' || !isNode(declaration)) return [];
  if (declaration.type !== 'VariableDeclaration') {
    return nameOf(declaration.identifier ?? declaration.id);
  }
  return (declaration.declarations as SyntaxNode[]).flatMap(({ id }) => nameOf(id));
}

function nameOf(node: unknown): string[] {
  return isNode(node) && typeof node.value === 'string' ? [node.value] : [];
}

function isLoader(callee: unknown): boolean {
  return isNode(callee) && (callee.type === 'Import' || isNamed(callee, 'require'));
}

function importedUrl(node: SyntaxNode): string | undefined {
  if (node.type !== 'NewExpression' || !isNamed(node.callee, 'URL')) return undefined;
  const text = firstArgument(node);
  return text?.startsWith('.') ? text : undefined;
}

function isProcessAccess(node: SyntaxNode): boolean {
  if (node.type === 'VariableDeclarator') return isNamed(node.init, 'process');
  return node.type === 'MemberExpression' && isNamed(node.object, 'process');
}

function isDatabaseAccess(node: SyntaxNode): boolean {
  if (node.type.endsWith('PatternProperty')) return isNamed(node.key, 'db');
  return node.type === 'MemberExpression' && isNamed(node.property, 'db');
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
  return node.type === 'ExportAllDeclaration' || importedModule(node) !== undefined;
}
