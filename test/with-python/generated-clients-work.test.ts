import { execFile } from 'node:child_process';
import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { ONLY_API } from '../support/api/only-api.ts';
import { startStackWithoutLimits } from '../support/guarantees/start-unlimited.ts';
import { registerDevice } from '../support/register-device.ts';
import type { Stack } from '../support/stack.ts';
import { installPythonPackage, runPython } from '../support/with-python/python.ts';

const run = promisify(execFile);
const SUPPORT = fileURLToPath(new URL('../support/with-python/', import.meta.url));
const TSC = fileURLToPath(new URL('../../node_modules/typescript/bin/tsc', import.meta.url));
const MINUTES = 360_000;
/** The generator is made for another compiler than the project's, so it stays out of the project. */
const NPM = ['openapi-typescript@7.13.0', 'openapi-fetch@0.17.0', 'typescript@5.9.3'];

let stack: Stack;
let folder: string;
let document: string;
let token: string;
let expected: object;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'carillon-clients-'));
  stack = await startStackWithoutLimits(ONLY_API);
  document = join(folder, 'openapi.json');
  const text = await (await fetch(`${stack.dev.api}/openapi.json`)).text();
  await writeFile(document, text);
  ({ token } = await registerDevice(stack.dev));
  expected = { devices: 1, pending: [token], dropped: true };
}, MINUTES);
afterAll(async () => {
  await stack?.stop();
  await rm(folder, { recursive: true, force: true });
});

test(
  'in Python, of openapi-python-client',
  async () => {
    const packages = join(folder, 'packages');
    await installPythonPackage(packages, 'openapi-python-client==0.26.2');
    const generate = ['-m', 'openapi_python_client', 'generate', '--path', document];
    const options = ['--output-path', join(folder, 'client'), '--meta', 'none'];
    const config = join(folder, 'config.yml');
    await writeFile(config, 'package_name_override: carillon_client\npost_hooks: []\n');
    options[1] = join(folder, 'carillon_client');
    const env = { PYTHONPATH: packages };
    const made = await runPython([...generate, ...options, '--config', config], {
      cwd: folder,
      env,
    });
    expect(made).toMatchObject({ code: 0, output: expect.not.stringMatching(/WARNING|ERROR/) });
    const program = join(SUPPORT, 'generated_client.py');
    const { api, apiKey } = stack.dev;
    const used = await runPython([program, folder, packages, api, apiKey, token], {
      cwd: folder,
      env,
    });
    expect(JSON.parse(used.output)).toEqual(expected);
  },
  MINUTES,
);

test(
  'in TypeScript, of openapi-typescript',
  async () => {
    const options = { cwd: folder, timeout: MINUTES };
    const manifest = { private: true, type: 'module' };
    await writeFile(join(folder, 'package.json'), JSON.stringify(manifest));
    await run('npm', ['install', '--no-audit', '--no-fund', ...NPM], options);
    const generator = join(folder, 'node_modules/.bin/openapi-typescript');
    await run(generator, [document, '--output', 'api.ts'], options);
    await copyFile(join(SUPPORT, 'generated-client.txt'), join(folder, 'program.ts'));
    const types = fileURLToPath(new URL('../../node_modules/@types', import.meta.url));
    const flags = '--noEmit --strict --module nodenext --target es2024 --types node';
    const more = ['--allowImportingTsExtensions', '--typeRoots', types, 'program.ts'];
    const checked = await run(TSC, [...flags.split(' '), ...more], options).catch((error) => error);
    expect(checked.stdout).toBe('');
    const { api, apiKey } = stack.dev;
    const used = await run(process.execPath, ['program.ts', api, apiKey, token], options);
    expect(JSON.parse(used.stdout)).toEqual(expected);
  },
  MINUTES,
);
