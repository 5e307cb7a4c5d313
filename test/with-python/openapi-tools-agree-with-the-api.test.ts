import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { ONLY_API } from '../support/api/only-api.ts';
import { storeWebhookKey } from '../support/api/webhook-key.ts';
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

const EXAMPLES = 100;
/** A schema can't express that some valid requests name a resource that does not exist, which is rejected too. */
const CHECKS = [
  'not_a_server_error',
  'status_code_conformance',
  'content_type_conformance',
  'response_schema_conformance',
  'negative_data_rejection',
];

/** It takes 413 for an acceptance unless configured. */
const SETTINGS = `[checks]
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 413]
`;

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
  'a client is generated in Python, of openapi-python-client',
  async () => {
    const packages = join(folder, 'packages');
    await installPythonPackage(packages, 'openapi-python-client==0.26.2');
    const generate = ['-m', 'openapi_python_client', 'generate', '--path', document];
    const config = join(folder, 'config.yml');
    await writeFile(config, 'package_name_override: carillon_client\npost_hooks: []\n');
    const options = ['--output-path', join(folder, 'carillon_client'), '--meta', 'none'];
    const within = { cwd: folder, env: { PYTHONPATH: packages } };
    const made = await runPython([...generate, ...options, '--config', config], within);
    expect(made).toMatchObject({ code: 0, output: expect.not.stringMatching(/WARNING|ERROR/) });
    const program = join(SUPPORT, 'generated_client.py');
    const { api, apiKey } = stack.dev;
    const used = await runPython([program, folder, packages, api, apiKey, token], within);
    expect(JSON.parse(used.output)).toEqual(expected);
  },
  MINUTES,
);

test(
  'a client is generated in TypeScript, of openapi-typescript',
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

test('schemathesis finds no response that does not match the OpenAPI document', async () => {
  const cwd = join(folder, 'schemathesis');
  await mkdir(cwd);
  await writeFile(join(cwd, 'schemathesis.toml'), SETTINGS);
  await installPythonPackage(cwd, 'schemathesis==4.32.5');
  await storeWebhookKey(stack);
  const { api, apiKey } = stack.dev;
  const args = [
    ...['-m', 'schemathesis.cli', 'run', `${api}/openapi.json`, '--checks', CHECKS.join(',')],
    ...['-H', `Authorization: Bearer ${apiKey}`, '--max-examples', `${EXAMPLES}`],
    ...['--phases', 'examples,coverage,fuzzing', '--continue-on-failure'],
    ...['--suppress-health-check', 'all'],
    // It would make up keys besides the good one.
    ...['--generation-with-security-parameters', 'false'],
  ];
  const { code, output } = await runPython(args, { cwd, env: { PYTHONPATH: cwd } });
  expect({ code, ...(code !== 0 && { output: output.slice(-6_000) }) }).toEqual({ code: 0 });
}, 900_000);
