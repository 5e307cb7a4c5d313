import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { findWorkloads } from '../support/k8s/manifest.ts';
import { RENDERED, ROOT, render } from '../support/k8s/render.ts';
import { createTemporaryFolder } from '../support/temporary-folder.ts';

const K8S = `${ROOT}k8s/`;
const MONITORING = `${K8S}components/monitoring/`;

function readYaml<T>(path: string): T {
  return parse(readFileSync(path, 'utf8')) as T;
}

test('the PrometheusRule holds the groups of rules/ (npm run k8s:rules writes it)', () => {
  const files = readdirSync(`${MONITORING}rules`).sort();
  const groups = files.flatMap(
    (name) => readYaml<{ groups: object[] }>(`${MONITORING}rules/${name}`).groups,
  );
  const written = readYaml<{ spec: { groups: object[] } }>(`${MONITORING}prometheus-rule.yaml`);
  expect(written.spec.groups).toEqual(groups);
  expect(groups.length).toBeGreaterThan(0);
});

test('every dashboard is in the ConfigMap', () => {
  const listed = readYaml<{ configMapGenerator: { files: string[] }[] }>(
    `${MONITORING}kustomization.yaml`,
  ).configMapGenerator.flatMap(({ files }) => files);
  const files = readdirSync(`${MONITORING}dashboards`).filter((name) => name.endsWith('.json'));
  expect(listed.sort()).toEqual(files.map((name) => `dashboards/${name}`).sort());
});

test('every component is rendered by an overlay or by the tests', () => {
  const used = RENDERED.flatMap(
    (folder) =>
      readYaml<{ components: string[] }>(`${ROOT}${folder}/kustomization.yaml`).components,
  ).map((path) => path.split('/').at(-1));
  expect([...new Set(used)].sort()).toEqual(readdirSync(`${K8S}components`).sort());
});

test('the workers of the provider pool are those of the base, but for their queues', async () => {
  const deployments = findWorkloads(await render('test/deploy/all-components'));
  const [worker = '', pool = ''] = ['delivery-worker', 'delivery-worker-providers'].map(
    (wanted) => {
      const spec = deployments.find(({ name }) => name === wanted)?.manifest.spec;
      const text = JSON.stringify(spec, (key, value) =>
        key === 'env'
          ? value.filter(({ name }: { name: string }) => name !== 'QUEUES').sort(byName)
          : value,
      );
      return text.replaceAll('delivery-worker-providers', 'delivery-worker');
    },
  );
  expect(JSON.parse(pool)).toEqual(JSON.parse(worker));
});

test('prod with the canary among its components gives it the public names', async () => {
  const folder = createTemporaryFolder();
  cpSync(K8S, folder, { recursive: true });
  const path = `${folder}/overlays/prod/kustomization.yaml`;
  const list = 'components:\n';
  const text = readFileSync(path, 'utf8').replace(list, `${list}  - ../../components/canary\n`);
  writeFileSync(path, text);
  const namesPath = `${folder}/overlays/prod/host-names.yaml`;
  writeFileSync(
    namesPath,
    readFileSync(namesPath, 'utf8').replaceAll('.example.com', '.example.org'),
  );
  const manifests = await render(`${folder}/overlays/prod`);
  const envOf = (workload: string) =>
    findWorkloads(manifests).find(({ name }) => name === workload)?.container.env;
  expect(envOf('canary')).toEqual(
    expect.arrayContaining([
      { name: 'CARILLON_API', value: 'https://push.example.org' },
      { name: 'CARILLON_MQTT', value: 'mqtts://mqtt.example.org' },
    ]),
  );
  expect(envOf('dashboard')).toEqual(
    expect.arrayContaining([
      { name: 'CONSOLE_URL', value: 'https://console.example.org' },
      { name: 'PUBLIC_API_URL', value: 'https://push.example.org' },
    ]),
  );
  const unchanged = manifests.filter((one) => JSON.stringify(one).includes('.example.com'));
  expect(unchanged.map(({ kind, metadata }) => `${kind} ${metadata.name}`)).toEqual([]);
});

function byName(a: { name: string }, b: { name: string }): number {
  return a.name.localeCompare(b.name);
}
