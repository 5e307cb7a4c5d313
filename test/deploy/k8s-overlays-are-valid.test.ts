import { spawnSync } from 'node:child_process';
import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { beforeAll, expect, test } from '@jest/globals';
import { findWorkloads, type Manifest } from '../support/k8s/manifest.ts';
import { RENDERED, ROOT, render } from '../support/k8s/render.ts';
import { createTemporaryFolder } from '../support/temporary-folder.ts';

/** Packages with the types of kinds that are not Kubernetes' own, by API group. */
const PACKAGES: Readonly<Record<string, string>> = {
  'cert-manager.io': '@kubernetes-models/cert-manager',
  'gateway.networking.k8s.io': '@kubernetes-models/gateway-api',
  'keda.sh': '@kubernetes-models/keda',
  'monitoring.coreos.com': '@kubernetes-models/prometheus-operator',
};
/** Kinds that no package has types of. */
const UNTYPED = ['MongoDBCommunity'];

const rendered = new Map<string, Manifest[]>();
beforeAll(async () => {
  for (const folder of RENDERED) rendered.set(folder, await render(folder));
}, 300_000);

/** Has the compiler compare manifests with the types of their kinds. @returns its errors */
function findErrors(overlays: ReadonlyMap<string, readonly Manifest[]>): string {
  const folder = createTemporaryFolder();
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  for (const [overlay, manifests] of overlays) {
    const typed = manifests.filter(({ kind }) => !UNTYPED.includes(kind));
    const lines = typed.map((manifest) => {
      const { apiVersion, kind } = manifest;
      const name = PACKAGES[apiVersion.split('/')[0] ?? ''] ?? 'kubernetes-models';
      const type = `import('${name}/${apiVersion}/${kind}').I${kind}`;
      return `(${JSON.stringify(manifest, null, 1)}) satisfies ${type};\n`;
    });
    writeFileSync(join(folder, `${basename(overlay)}.mts`), `export {};\n${lines.join('')}`);
  }
  const compilerOptions = { strict: true, noEmit: true, skipLibCheck: true, module: 'nodenext' };
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions }));
  return spawnSync(join(ROOT, 'node_modules/.bin/tsc'), ['--project', folder], { encoding: 'utf8' })
    .stdout;
}

test('every overlay has the fields and types of Kubernetes and of the operators', () => {
  expect(rendered.size).toBeGreaterThan(6);
  expect(findErrors(rendered)).toBe('');
});

test.each([
  ['"readinessProbe"', '"readinesProbe"'],
  ['"minReplicaCount"', '"minReplicas"'],
])('%s misspelt as %s is found', (key, misspelt) => {
  const prod = JSON.stringify(rendered.get('k8s/overlays/prod')).replace(key, misspelt);
  expect(findErrors(new Map([['prod', JSON.parse(prod)]]))).toContain(misspelt.slice(1, -1));
});

test.each(RENDERED)('%s: every pod has a ServiceAccount, without a token', (folder) => {
  const manifests = rendered.get(folder) ?? [];
  const accounts = manifests.filter(({ kind }) => kind === 'ServiceAccount');
  expect(accounts.filter((one) => one.automountServiceAccountToken !== false)).toEqual([]);
  const names = findWorkloads(manifests).map(({ pod }) => pod.serviceAccountName);
  expect([...new Set(names)].sort()).toEqual(accounts.map(({ metadata }) => metadata.name).sort());
});

test('the Secret of a private registry reaches every ServiceAccount', () => {
  const manifests = rendered.get('test/deploy/all-components') ?? [];
  const accounts = manifests.filter(({ kind }) => kind === 'ServiceAccount');
  const secrets = accounts.flatMap(({ imagePullSecrets = [] }) => imagePullSecrets);
  expect(accounts.length).toBeGreaterThan(6);
  expect(secrets.map(({ name }) => name)).toEqual(accounts.map(() => 'carillon-registry'));
});

test('the workers of the provider pool are those of the base, but for their queues', () => {
  const workloads = findWorkloads(rendered.get('test/deploy/all-components') ?? []);
  const byName = (a: { name: string }, b: { name: string }) => a.name.localeCompare(b.name);
  const [worker, pool] = ['delivery-worker', 'delivery-worker-providers'].map((wanted) => {
    const spec = workloads.find(({ name }) => name === wanted)?.manifest.spec;
    const text = JSON.stringify(spec, (key, value) =>
      key === 'env'
        ? value.filter(({ name }: { name: string }) => name !== 'QUEUES').sort(byName)
        : value,
    );
    return JSON.parse(text.replaceAll('delivery-worker-providers', 'delivery-worker'));
  });
  expect(pool).toEqual(worker);
});

test('prod with the canary among its components gives it the public names', async () => {
  const folder = createTemporaryFolder();
  cpSync(`${ROOT}k8s`, folder, { recursive: true });
  const edit = (name: string, from: string, to: string) => {
    const path = `${folder}/overlays/prod/${name}`;
    writeFileSync(path, readFileSync(path, 'utf8').replaceAll(from, to));
  };
  edit('kustomization.yaml', 'components:\n', 'components:\n  - ../../components/canary\n');
  edit('host-names.yaml', '.example.com', '.example.org');
  const manifests = await render(`${folder}/overlays/prod`);
  const workloads = findWorkloads(manifests);
  const names = [
    ['canary', 'CARILLON_API', 'https://push.example.org'],
    ['canary', 'CARILLON_MQTT', 'mqtts://mqtt.example.org'],
    ['dashboard', 'CONSOLE_URL', 'https://console.example.org'],
    ['dashboard', 'PUBLIC_API_URL', 'https://push.example.org'],
  ];
  for (const [workload, name, value] of names)
    expect(workloads.find((one) => one.name === workload)?.container.env).toContainEqual({
      name,
      value,
    });
  const unchanged = manifests.filter((one) => JSON.stringify(one).includes('.example.com'));
  expect(unchanged.map(({ kind, metadata }) => `${kind} ${metadata.name}`)).toEqual([]);
});
