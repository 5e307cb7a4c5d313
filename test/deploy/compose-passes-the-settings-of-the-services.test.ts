import { execFileSync } from 'node:child_process';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { mongodbEnv } from '../../packages/runtime/src/env.ts';
import { environment as api } from '../../services/api/src/environment.ts';
import { environmentSchema as cli } from '../../services/cli/src/stack.ts';
import { environment as dashboard } from '../../services/dashboard/src/environment.ts';
import { environment as deliveryWorker } from '../../services/delivery-worker/src/environment.ts';
import { environment as deviceGateway } from '../../services/device-gateway/src/environment.ts';
import { environment as sandbox } from '../../services/sandbox/src/environment.ts';
import { environment as scheduler } from '../../services/scheduler/src/environment.ts';
import { ROOT } from '../support/first-run/test-home.ts';
import { createTemporaryFolder } from '../support/temporary-folder.ts';

interface Service {
  image?: string;
  build?: { args?: Record<string, string> };
  environment?: Record<string, string>;
  secrets?: string[];
  volumes?: string[];
  stop_grace_period?: string;
  ulimits?: { nofile: { soft: string } };
}

/** Schema of a variable. */
interface Setting {
  safeParse(value: unknown): { success: boolean; data?: unknown };
}

const compose = parse(readFileSync(join(ROOT, 'docker-compose.yml'), 'utf8'), { merge: true }) as {
  services: Record<string, Service>;
  secrets: Record<string, { file: string }>;
};
const settingsOf: Readonly<Record<string, Readonly<Record<string, Setting>>>> = {
  api: api.shape,
  'delivery-worker': deliveryWorker.shape,
  scheduler: scheduler.shape,
  'device-gateway': deviceGateway.shape,
  dashboard: dashboard.shape,
  migrate: mongodbEnv,
  carillon: cli.shape,
  sandbox: sandbox.shape,
};
const services = Object.entries(compose.services).flatMap(([name, service]) => {
  const settings = settingsOf[name];
  return settings === undefined ? [] : [{ name, settings, ...service }];
});
/** Fixed by the image and the published ports, or for tests. */
const NOT_PASSED = /_LISTEN$|^(OPS_HOSTS|FAILPOINTS)$/;
/** Services that keep running and that operators configure. */
const LASTING = ['api', 'delivery-worker', 'scheduler', 'device-gateway', 'dashboard'];

/** Returns a value in which each variable has its default. */
const withDefaults = (value: string) => String(value).replace(/\$\{\w+:-([^}]*)\}/g, '$1');

test('compose runs the services whose settings are checked here', () => {
  expect(services.map(({ name }) => name)).toEqual([...LASTING, 'migrate', 'carillon', 'sandbox']);
});

test('images of others have a digest, which is the same in compose and Kubernetes', () => {
  const images = Object.values(compose.services).map(({ image = '' }) => image);
  const foreign = images.filter((image) => !image.startsWith('${CARILLON_IMAGES'));
  const digests = foreign.map((image) => /@(sha256:[0-9a-f]{64})\}?$/.exec(image)?.[1] ?? image);
  expect(digests).toEqual(digests.filter((digest) => digest.startsWith('sha256:')));
  const inCluster = globSync('k8s/components/*/kustomization.yaml', { cwd: ROOT }).flatMap(
    (path) => {
      const { images: replaced = [] } = parse(readFileSync(join(ROOT, path), 'utf8'));
      return replaced.flatMap(({ digest }: { digest?: string }) => digest ?? []);
    },
  );
  expect(inCluster.length).toBeGreaterThan(3);
  expect(inCluster.filter((digest) => !digests.includes(digest))).toEqual([]);
});

test.each(services)('$name knows and can read its settings', ({ settings, environment = {} }) => {
  const wrong = Object.entries(environment).filter(([name, value]) => {
    const setting = settings[name] ?? settings[name.replace(/_FILE$/, '')];
    const text = withDefaults(value);
    // An empty value is none. That of a NAME_FILE is in a file.
    const isGiven = text !== '' && !name.endsWith('_FILE');
    return setting === undefined || (isGiven && !setting.safeParse(text).success);
  });
  expect(wrong).toEqual([]);
});

test.each(services)('$name gets settings without default', ({ settings, environment = {} }) => {
  const required = Object.keys(settings).filter(
    (name) => settings[name]?.safeParse(undefined).success === false,
  );
  const isGiven = (name: string) => name in environment || `${name}_FILE` in environment;
  expect(required.filter((name) => !isGiven(name))).toEqual([]);
});

test.each(services.filter(({ name }) => LASTING.includes(name)))(
  'each setting of $name can be set',
  ({ settings, environment = {} }) => {
    const isPassed = (name: string) => name in environment || `${name}_FILE` in environment;
    const missing = Object.keys(settings).filter(
      (name) => !NOT_PASSED.test(name) && !isPassed(name),
    );
    expect(missing).toEqual([]);
  },
);

test('the files that variables name are mounted, and created with the secrets', () => {
  const folder = createTemporaryFolder();
  const script = join(ROOT, 'deploy/image/create-secrets.mjs');
  execFileSync(process.execPath, [script, folder], { stdio: 'ignore' });
  const sourceOf = (path: string) => withDefaults(path).replace('./secrets', folder);
  for (const { name, environment = {}, secrets = [], volumes = [] } of services) {
    const mounts = [
      ...secrets.map((one) => [compose.secrets[one]?.file ?? '', `/run/secrets/${one}`]),
      ...volumes.map((one) => withDefaults(one).split(':')),
    ].map(([source = '', target = '']) => ({ source: sourceOf(source), target }));
    for (const [variable, path] of Object.entries(environment)) {
      if (!variable.endsWith('_FILE')) continue;
      const mount = mounts.find(({ target }) => path.startsWith(target));
      const source = path.replace(mount?.target ?? '', mount?.source ?? '');
      expect({ name, variable, exists: existsSync(source) }).toMatchObject({ exists: true });
      expect(mount).toBeDefined();
    }
  }
});

test('a gateway has descriptors for its connections, and the time of its drain', () => {
  const { ulimits, stop_grace_period: grace = '' } = compose.services['device-gateway'] ?? {};
  const defaultOf = (name: string) =>
    Number(settingsOf['device-gateway']?.[name]?.safeParse(undefined).data);
  const files = Number(withDefaults(ulimits?.nofile.soft ?? ''));
  expect(files).toBeGreaterThanOrEqual(defaultOf('MAX_CONNECTIONS') * 1.05 + 1_100);
  expect(grace).toBe(`1m\${GATEWAY_DRAIN_SECONDS:-${defaultOf('GATEWAY_DRAIN_SECONDS')}}s`);
});

test('each image that is built gets its version and its revision', () => {
  const built = Object.values(compose.services).flatMap(({ build }) => (build ? [build] : []));
  expect(built.length).toBe(7);
  for (const { args } of built)
    expect(args).toEqual({
      VERSION: expect.stringContaining('CARILLON_VERSION'),
      REVISION: expect.stringContaining('CARILLON_REVISION'),
    });
});
