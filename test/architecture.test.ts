import { describe, expect, test } from '@jest/globals';
import { unreached } from './support/architecture/reach.ts';
import { FILE_RULES } from './support/architecture/rules.ts';
import { describeFile } from './support/architecture/source-file.ts';
import { folderOf, readWorkspace } from './support/architecture/workspace.ts';

const workspace = readWorkspace();
const bare = { folder: '', name: '', dependencies: [] };

function manifestOf(path: string) {
  return workspace.manifests.find(({ folder }) => folder === folderOf(path)) ?? bare;
}

function violationsOf(rule: string, path: string, source: string) {
  const found = FILE_RULES.find(({ name }) => name === rule);
  if (found === undefined) throw new Error(`no rule is called "${rule}"`);
  return found.violations(describeFile(path, source), { ...bare, folder: folderOf(path) });
}

describe('the workspace keeps its architecture', () => {
  test('it has sources', () => expect(workspace.sources.length).toBeGreaterThan(0));

  test.each(FILE_RULES)('$name', ({ alsoTests = false, violations }) => {
    const files = alsoTests ? [...workspace.sources, ...workspace.tests] : workspace.sources;
    expect(files.flatMap((file) => violations(file, manifestOf(file.path)))).toEqual([]);
  });

  test('every source file is reached from a main.ts or a test', () => {
    const sources = new Set(workspace.sources.map(({ path }) => path));
    const files = [...workspace.sources, ...workspace.tests];
    expect(unreached(files).filter((path) => sources.has(path))).toEqual([]);
  });

  test('the root has no dependencies at run time', () => {
    expect(workspace.root.dependencies).toEqual([]);
  });
});

describe('a violation is caught', () => {
  const CORE_ONLY = 'imports point to packages, and from packages to core';
  const OWN_FOLDER = 'relative imports stay in their own package';
  const DECLARED = 'what is imported is declared in the own package.json';
  const ROOM = 'each library stays in its room';
  const PROCESS = 'only the edges touch process';

  test.each([
    [CORE_ONLY, 'packages/core/src/a.ts', "import '@carillon/store/db';"],
    [CORE_ONLY, 'packages/store/src/a.ts', "export * from '@carillon/queue/names';"],
    [CORE_ONLY, 'packages/new/src/a.ts', "import '@carillon/core/ids';"],
    [CORE_ONLY, 'services/api/src/a.ts', "await import('@carillon/scheduler/due');"],
    [OWN_FOLDER, 'services/api/src/a.ts', "import '../../scheduler/src/due.ts';"],
    [OWN_FOLDER, 'services/api/src/a.ts', "import '../../../packages/core/src/ids.ts';"],
    [DECLARED, 'services/api/src/a.ts', "import { z } from 'zod';"],
    [DECLARED, 'services/api/src/a.ts', "import fs from 'fs';"],
    ['pure packages import few libraries', 'packages/core/src/a.ts', "import 'lru-cache';"],
    [ROOM, 'services/api/src/push/accept-push.ts', "import type { Request } from 'express';"],
    [ROOM, 'services/api/src/a.ts', "type Db = import('mongodb').Db;"],
    [ROOM, 'packages/store/src/a.ts', "import { Redis } from 'ioredis';"],
    [ROOM, 'services/device-gateway/src/a.ts', "const mqtt = require('mqtt');"],
    [PROCESS, 'services/api/src/a.ts', 'const port = process.env.PORT;'],
    [PROCESS, 'services/api/src/a.ts', 'const { argv } = process;'],
    [PROCESS, 'services/cli/src/a.ts', "import { exit } from 'node:process';"],
    ['no index file only re-exports', 'packages/core/src/index.ts', "export * from './ids.ts';"],
  ])('%s: %s with %j', (rule, path, source) => {
    expect(violationsOf(rule, path, source)).toHaveLength(1);
  });

  test.each([
    [CORE_ONLY, 'services/api/src/a.ts', "import '@carillon/store/db';"],
    [OWN_FOLDER, 'services/api/src/a/b.ts', "import '../c.ts';"],
    [DECLARED, 'services/api/src/a.ts', "// import 'zod';\nconst text = `import 'zod'`;"],
    [ROOM, 'services/api/src/push/routes.ts', "import { Router } from 'express';"],
    [PROCESS, 'services/api/src/main.ts', 'process.exit(1);'],
    [PROCESS, 'services/api/src/a.ts', 'queue.process(); const process = 1;'],
    ['no index file only re-exports', 'packages/core/src/index.ts', 'export const a = 1;'],
  ])('but not what is allowed: %s: %s with %j', (rule, path, source) => {
    expect(violationsOf(rule, path, source)).toEqual([]);
  });

  test('a file of 301 lines', () => {
    const found = violationsOf('no file is long', 'services/api/src/a.ts', '\n'.repeat(301));
    expect(found).toEqual(['services/api/src/a.ts has 301 lines']);
  });

  test('a file that nothing leads to', () => {
    const files = [
      describeFile('services/api/src/main.ts', "import '@carillon/core/ids'; import './a.ts';"),
      describeFile('services/api/src/a.ts', "new Worker(new URL('./b.ts', import.meta.url));"),
      describeFile('services/api/src/b.ts', ''),
      describeFile('packages/core/src/ids.ts', ''),
      describeFile('packages/core/src/lost.ts', "import './lost.ts';"),
    ];
    expect(unreached(files)).toEqual(['packages/core/src/lost.ts']);
  });
});
