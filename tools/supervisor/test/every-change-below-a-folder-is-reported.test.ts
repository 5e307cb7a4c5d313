import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import { watchFolders } from '../src/watch-folders.ts';

let root: string;
let reported: string[];
let stop: () => void;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'carillon-watch-'));
  mkdirSync(join(root, 'deep/er'), { recursive: true });
  writeFileSync(join(root, 'deep/er/a.ts'), '');
  reported = [];
  stop = watchFolders([root], (paths) => reported.push(...paths));
});
afterEach(() => {
  stop();
  rmSync(root, { recursive: true, force: true });
});

test('a file that editors replace by a rename, repeatedly, is reported', async () => {
  for (let n = 0; n < 3; n += 1) {
    replace('deep/er/a.ts');
    await untilReported('deep/er/a.ts');
  }
});

test('a file in a folder that is new, or removed and created again, is reported', async () => {
  for (let n = 0; n < 2; n += 1) {
    mkdirSync(join(root, 'new/folder'), { recursive: true });
    await untilReported('new/folder');
    writeFileSync(join(root, 'new/folder/b.ts'), '');
    await untilReported('new/folder/b.ts');
    rmSync(join(root, 'new'), { recursive: true });
    await untilReported('new');
  }
});

test('a file in a folder that is moved away and created again at once is reported', async () => {
  renameSync(join(root, 'deep'), join(root, 'away'));
  mkdirSync(join(root, 'deep/er'), { recursive: true });
  await untilReported('deep/er');
  writeFileSync(join(root, 'deep/er/c.ts'), '');
  await untilReported('deep/er/c.ts');
});

test('changes within a moment are reported together, without temporary files of editors', async () => {
  for (const name of ['.a.ts.swp', 'a.ts~', '4913', 'b.ts', 'c.ts']) {
    writeFileSync(join(root, 'deep', name), '');
  }
  const all = await untilReported('deep/c.ts');
  expect(all).toEqual([join(root, 'deep/b.ts'), join(root, 'deep/c.ts')]);
});

function replace(name: string): void {
  writeFileSync(join(root, `${name}.tmp`), 'x');
  renameSync(join(root, `${name}.tmp`), join(root, name));
}

/** Waits until a path is reported; returns all reported paths and clears them. */
async function untilReported(name: string): Promise<string[]> {
  await until(() => reported.includes(join(root, name)), { what: `${name} is reported` });
  return reported.splice(0).sort();
}
