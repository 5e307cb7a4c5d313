import { matchesGlob, posix } from 'node:path';
import type { SourceFile } from './source-file.ts';
import { folderOf, type Manifest } from './workspace.ts';

/** Who may import which package of the workspace. Services may import every one named here. */
const PACKAGES: Record<string, readonly string[]> = {
  'packages/core': [],
  'packages/runtime': ['@carillon/core'],
  'packages/store': ['@carillon/core'],
  'packages/queue': ['@carillon/core'],
  'packages/presence': ['@carillon/core'],
};

/** The only libraries of a package that must stay pure. */
const LIBRARIES: Record<string, readonly string[]> = { 'packages/core': ['zod'] };

/** Each library has one room. */
const ROOMS: Record<string, readonly string[]> = {
  express: ['services/api/src/**/routes.ts', 'services/api/src/http/**'],
  bullmq: ['packages/queue/**'],
  mongodb: ['packages/store/**'],
  ioredis: ['packages/queue/**', 'packages/presence/**'],
  'mqtt-packet': ['services/device-gateway/**'],
  mqtt: ['services/cli/**'],
  pino: ['packages/runtime/**'],
  '@prometheus-io/client': ['packages/runtime/**'],
};

/** Where `process` may be touched: the edges. Everybody else is handed what it needs. */
const PROCESS_ROOMS = ['services/*/src/main.ts', 'packages/runtime/**', 'services/supervisor/**'];

const MAX_LINES = 300;
const SCOPE = '@carillon/';

/** A rule about one file; its answer names each violation, none when the file keeps it. */
export interface FileRule {
  name: string;
  /** Holds for tests and their support too. */
  alsoTests?: true;
  violations(file: SourceFile, manifest: Manifest): string[];
}

export const FILE_RULES: readonly FileRule[] = [
  {
    name: 'imports point to packages, and from packages to core',
    violations: ({ path, imports }) =>
      imports
        .filter((name) => name.startsWith(SCOPE) && !mayImport(folderOf(path), libraryOf(name)))
        .map((name) => `${path} imports ${name}`),
  },
  {
    name: 'relative imports stay in their own package',
    violations: ({ path, imports }) =>
      imports
        .filter((name) => name.startsWith('.'))
        .filter((name) => folderOf(posix.join(path, '..', name)) !== folderOf(path))
        .map((name) => `${path} imports ${name}`),
  },
  {
    name: 'what is imported is declared in the own package.json',
    violations: ({ path, imports }, manifest) =>
      imports
        .filter(isLibrary)
        .filter((name) => !manifest.dependencies.includes(libraryOf(name)))
        .map((name) => `${path} imports ${name}, ${manifest.folder}/package.json lacks it`),
  },
  {
    name: 'pure packages import few libraries',
    violations: ({ path, imports }) => {
      const allowed = LIBRARIES[folderOf(path)];
      if (allowed === undefined) return [];
      return imports
        .filter((name) => isLibrary(name) && !allowed.includes(libraryOf(name)))
        .map((name) => `${path} imports ${name}`);
    },
  },
  {
    name: 'each library stays in its room',
    violations: ({ path, imports }) =>
      imports
        .filter((name) => !isIn(ROOMS[libraryOf(name)] ?? ['**'], path))
        .map((name) => `${path} imports ${name}`),
  },
  {
    name: 'only the edges touch process',
    violations: ({ path, touchesProcess }) =>
      touchesProcess && !isIn(PROCESS_ROOMS, path) ? [`${path} touches process`] : [],
  },
  {
    name: 'no file is long',
    alsoTests: true,
    violations: ({ path, lines }) => (lines > MAX_LINES ? [`${path} has ${lines} lines`] : []),
  },
  {
    name: 'no index file only re-exports',
    violations: ({ path, onlyReexports }) =>
      onlyReexports && posix.basename(path).startsWith('index.') ? [`${path} only re-exports`] : [],
  },
];

function mayImport(folder: string, name: string): boolean {
  if (folder.startsWith('services/')) return `packages/${name.slice(SCOPE.length)}` in PACKAGES;
  return PACKAGES[folder]?.includes(name) ?? false;
}

/** `@a/b/c` → `@a/b`, `a/b` → `a`. */
function libraryOf(name: string): string {
  return name
    .split('/')
    .slice(0, name.startsWith('@') ? 2 : 1)
    .join('/');
}

function isLibrary(name: string): boolean {
  return !name.startsWith('.') && !name.startsWith('node:');
}

function isIn(rooms: readonly string[], path: string): boolean {
  return rooms.some((room) => matchesGlob(path, room));
}
