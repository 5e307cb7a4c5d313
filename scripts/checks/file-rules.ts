import { builtinModules } from 'node:module';
import { matchesGlob, posix } from 'node:path';
import { findRetiredNames } from './retired-names.ts';
import type { SourceFile } from './source-file.ts';

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
const MAX_FUNCTION_LINES = 60;

/** A rule about one file. The rules about imports are in .dependency-cruiser.mjs. */
export interface FileRule {
  name: string;
  /** Applies the rule to tests and their support too. */
  alsoTests?: true;
  /** Finds the violations in a file. */
  violations(file: SourceFile): string[];
}

export const FILE_RULES: readonly FileRule[] = [
  {
    name: 'built-in modules are imported with node:, types by import declarations',
    violations: ({ path, imports, importTypes }) => [
      ...imports.filter(isBuiltin).map((name) => `${path} imports ${name}`),
      // dependency-cruiser does not see them.
      ...importTypes.map((name) => `${path} uses import('${name}') as a type`),
    ],
  },
  {
    name: 'what keeps running takes node:http from the runtime',
    violations: ({ path, loads }) =>
      loads.includes('node:http') && isIn(RUNNING_FILES, path) ? [`${path} loads node:http`] : [],
  },
  {
    name: 'only the edges touch process',
    violations: ({ path, touchesProcess }) =>
      touchesProcess && !isIn(PROCESS_FILES, path) ? [`${path} touches process`] : [],
  },
  {
    name: 'only the packages of MongoDB take the database from a store',
    violations: ({ path, takesDatabase }) =>
      takesDatabase && !isIn(DATABASE_FILES, path) ? [`${path} takes the database`] : [],
  },
  {
    name: 'no file is long',
    alsoTests: true,
    violations: ({ path, lines }) => (lines > MAX_LINES ? [`${path} has ${lines} lines`] : []),
  },
  {
    name: 'no function is long',
    alsoTests: true,
    violations: ({ path, functions }) =>
      functions
        .filter(({ ownLines }) => ownLines > MAX_FUNCTION_LINES)
        .map(({ name, line, ownLines }) => `${path}:${line} ${name} has ${ownLines} lines`),
  },
  {
    name: 'no index file only re-exports',
    violations: ({ path, onlyReexports }) =>
      onlyReexports && posix.basename(path).startsWith('index.') ? [`${path} only re-exports`] : [],
  },
  {
    name: 'no file name or exported name contains a retired word',
    alsoTests: true,
    violations: findRetiredNames,
  },
];

function isBuiltin(name: string): boolean {
  return builtinModules.includes(name);
}

function isIn(patterns: readonly string[], path: string): boolean {
  return patterns.some((room) => matchesGlob(path, room));
}
