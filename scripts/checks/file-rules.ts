import { builtinModules } from 'node:module';
import { basename, matchesGlob } from 'node:path';
import { findLongFunctions } from './function-lengths.ts';
import { RETIRED_NAMES } from './retired-names.ts';
import {
  exportedNames,
  importedModule,
  isNamed,
  type SourceFile,
  type SyntaxNode,
} from './source-file.ts';

/** The files that may use `process`. All others get its values as parameters. */
const PROCESS_FILES = ['services/*/src/main.ts', 'packages/runtime/**', 'tools/supervisor/**'];

/** The files of packages and of processes that a deployment keeps running. */
const RUNNING_FILES = [
  'packages/*/src/**',
  'services/{api,dashboard,delivery-worker,device-gateway,scheduler}/src/**',
];

/** The packages that send statements to MongoDB, and `presence`, where `db` is the number of a Redis's database. */
const DATABASE_FILES = ['packages/{store,reports,webhooks,presence}/src/**'];

const MAX_LINES = 500;

/** A rule about one file. The rules about imports are in .dependency-cruiser.mjs. */
interface FileRule {
  name: string;
  /** Applies the rule to tests and their support too. */
  alsoTests?: true;
  /** Finds what breaks the rule in a file. */
  find(file: SourceFile): string[];
}

export const FILE_RULES: readonly FileRule[] = [
  {
    name: 'built-in modules are imported with node:, types by import declarations',
    find: ({ imports, nodes }) => [
      ...imports.filter((name) => builtinModules.includes(name)),
      // dependency-cruiser does not see them.
      ...nodes.filter(({ type }) => type === 'TsImportType').map(() => "import('…') as a type"),
    ],
  },
  {
    name: 'what keeps running takes node:http from the runtime',
    find: ({ path, body }) => when(isIn(RUNNING_FILES, path) && body.some(loadsHttp), 'node:http'),
  },
  {
    name: 'only the edges touch process',
    find: ({ path, nodes, imports }) =>
      when(
        !isIn(PROCESS_FILES, path) &&
          (nodes.some(isProcessAccess) || imports.includes('node:process')),
        'process',
      ),
  },
  {
    name: 'only the packages of MongoDB take the database from a store',
    find: ({ path, nodes }) =>
      when(!isIn(DATABASE_FILES, path) && nodes.some(isDatabaseAccess), 'the database'),
  },
  {
    name: 'no file is long',
    alsoTests: true,
    find: ({ source }) => {
      const lines = source.split('\n').length - 1;
      return when(lines > MAX_LINES, `${lines} lines`);
    },
  },
  { name: 'no function is long', alsoTests: true, find: findLongFunctions },
  {
    name: 'no index file only re-exports',
    find: ({ path, body }) =>
      when(
        basename(path).startsWith('index.') && body.length > 0 && body.every(isReexport),
        'nothing of its own',
      ),
  },
  {
    name: 'no file name or exported name contains a retired word',
    alsoTests: true,
    find: ({ path, body }) =>
      [basename(path), ...body.flatMap(exportedNames)].flatMap((name) =>
        Object.entries(RETIRED_NAMES)
          .filter(([retired]) => containsWords(name, retired))
          .map(([retired, term]) => `${name} says "${retired}", use "${term}"`),
      ),
  },
];

/** Applies the rules to a file. @returns problems, each as `rule: path: what breaks it` */
export function applyRules(file: SourceFile, isTest: boolean): string[] {
  return FILE_RULES.filter(({ alsoTests }) => alsoTests || !isTest).flatMap(({ name, find }) =>
    find(file).map((found) => `${name}: ${file.path}: ${found}`),
  );
}

function when(isBroken: boolean, found: string): string[] {
  return isBroken ? [found] : [];
}

function isIn(patterns: readonly string[], path: string): boolean {
  return patterns.some((room) => matchesGlob(path, room));
}

/** Checks for an import that is not only of types: it stays when types are stripped. */
function loadsHttp(node: SyntaxNode): boolean {
  const isLoading = node.type === 'ImportDeclaration' && node.typeOnly !== true;
  return isLoading && importedModule(node) === 'node:http';
}

function isProcessAccess({ type, init, object }: SyntaxNode): boolean {
  if (type === 'VariableDeclarator') return isNamed(init, 'process');
  return type === 'MemberExpression' && isNamed(object, 'process');
}

function isDatabaseAccess({ type, key, property }: SyntaxNode): boolean {
  if (type.endsWith('PatternProperty')) return isNamed(key, 'db');
  return type === 'MemberExpression' && isNamed(property, 'db');
}

function isReexport(node: SyntaxNode): boolean {
  return node.type === 'ExportAllDeclaration' || importedModule(node) !== undefined;
}

/** Compares whole words of a kebab-case, camelCase or UPPER_CASE name. */
function containsWords(name: string, words: string): boolean {
  const nameWords = name.replaceAll(/([a-z\d])([A-Z])/g, '$1 $2').replaceAll(/[^A-Za-z\d]+/g, ' ');
  return ` ${nameWords.toLowerCase()} `.includes(` ${words} `);
}
