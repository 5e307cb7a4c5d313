import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createEngine, type Engine } from '../support/deploy/engine.ts';

const MAX_BUILD_MS = 900_000;
const FIRST = 'carillon/scheduler:test';
const SECOND = 'carillon/again:test';

let engine: Engine;

beforeAll(async () => {
  engine = await createEngine();
  await engine.build('scheduler', FIRST, ['--layers']);
}, MAX_BUILD_MS);
afterAll(() => engine?.close(), MAX_BUILD_MS);

test(
  'a second build has the same digest',
  async () => {
    await engine.build('scheduler', SECOND, ['--no-cache', '--layers']);
    const idOf = (image: string) => engine.podman('image', 'inspect', '--format', '{{.Id}}', image);
    expect(await idOf(SECOND)).toBe(await idOf(FIRST));
  },
  MAX_BUILD_MS,
);
