import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, jest, test } from '@jest/globals';
import { nameOf } from '../../scripts/helm-templates.ts';
import { codeBlock } from '../support/documents/code-blocks.ts';
import { OVERLAYS_AS_VALUES, renderWithHelm, runHelm } from '../support/k8s/helm.ts';
import { findWorkloads, type Manifest } from '../support/k8s/manifest.ts';
import { ROOT, render } from '../support/k8s/render.ts';
import { createTemporaryFolder } from '../support/temporary-folder.ts';

// Helm may be compiled first.
jest.setTimeout(900_000);

const PAGE = 'docs/run/deploy-on-kubernetes.md';

/** Sorts objects, and lists whose items have names: the order of variables, ports and volumes has no meaning. */
function sort(manifests: readonly Manifest[]): Record<string, Manifest> {
  const sorted = manifests.map((manifest) => {
    const text = JSON.stringify(manifest, (_, value) =>
      Array.isArray(value) && value.every((item) => nameOf(item) !== undefined)
        ? value.toSorted((a, b) => ((nameOf(a) ?? '') < (nameOf(b) ?? '') ? -1 : 1))
        : value,
    );
    return [`${manifest.kind} ${manifest.metadata.name}`, JSON.parse(text)];
  });
  expect(new Set(sorted.map(([id]) => id)).size).toBe(manifests.length);
  return Object.fromEntries(sorted);
}

/** Renders by kustomize what the chart makes: the Namespace is not in it. */
async function renderOverlay(folder: string): Promise<Record<string, Manifest>> {
  return sort((await render(folder)).filter(({ kind }) => kind !== 'Namespace'));
}

test.each(Object.keys(OVERLAYS_AS_VALUES))('the chart makes the overlay %s', async (name) => {
  const overlay = await renderOverlay(`k8s/overlays/${name}`);
  const chart = sort(await renderWithHelm(OVERLAYS_AS_VALUES[name] ?? {}, 'carillon'));
  expect(Object.keys(overlay).length).toBeGreaterThan(20);
  expect(chart).toEqual(overlay);
});

/** Changes of the texts of k8s/, and the values that make the same. */
const CHANGES: readonly (readonly [from: RegExp, to: string])[] = [
  [/push\.example\.com/g, 'push.own.test'],
  [/console\.example\.com/g, 'console.own.test'],
  [/mqtt\.example\.com/g, 'mqtt.own.test'],
  [/(name: WEB_PUSH_CONTACT\n +value:) ""/g, '$1 "mailto:own@own.test"'],
  [/carillon-secrets/g, 'own-secrets'],
  [/api-tls/g, 'own-api-tls'],
  [/console-tls/g, 'own-console-tls'],
  [/device-gateway-tls/g, 'own-mqtt-tls'],
  [/carillon-canary/g, 'own-canary'],
  [/carillon-registry/g, 'own-registry'],
  [/envoy-gateway-system/g, 'own-proxy'],
  [/gatewayClassName: envoy/g, 'gatewayClassName: own'],
  [/letsencrypt/g, 'own-issuer'],
  [/metadata\.name: monitoring/g, 'metadata.name: own-monitoring'],
  [/prometheus-operated\.monitoring/g, 'prometheus-operated.own-monitoring'],
  [/otel-collector\.observability:4318/g, 'collector.own-traces:4320'],
  [/port: 4318/g, 'port: 4320'],
  [/metadata\.name: observability/g, 'metadata.name: own-traces'],
  [/login\.example\.com/g, 'login.own.test'],
  [/(name: OIDC_CLIENT_ID\n +value:) carillon/g, '$1 own-client'],
  [/namespace="carillon"/g, 'namespace="push"'],
  [
    /(name: delivery-worker\n(?:.*\n)*?.*minReplicaCount:) 2\n( +maxReplicaCount:) 20/g,
    '$1 4\n$2 40',
  ],
  [/cpu: 100m\n( +)memory: 192Mi/g, 'cpu: 200m\n$1memory: 384Mi'],
];
const VALUES = {
  image: { registry: 'registry.own.test/push', tag: '9.9.9', pullSecret: 'own-registry' },
  hosts: { api: 'push.own.test', console: 'console.own.test', mqtt: 'mqtt.own.test' },
  webPushContact: 'mailto:own@own.test',
  secrets: {
    ...{ carillon: 'own-secrets', canary: 'own-canary', mqttTls: 'own-mqtt-tls' },
    ...{ apiTls: 'own-api-tls', consoleTls: 'own-console-tls' },
  },
  replicas: { deliveryWorker: 4, scheduler: 3, dashboard: 1 },
  maxReplicas: { deliveryWorker: 40 },
  resources: {
    scheduler: { requests: { cpu: '200m', memory: '384Mi' }, limits: { memory: '320Mi' } },
  },
  autoscaling: 'keda',
  expose: { by: 'gateway-api', class: 'own', namespace: 'own-proxy' },
  issuer: 'own-issuer',
  monitoring: { enabled: true, namespace: 'own-monitoring' },
  ...{ trialServers: { enabled: true }, sandbox: { enabled: true }, canary: { enabled: true } },
  tracing: { endpoint: 'http://collector.own-traces:4320', namespace: 'own-traces' },
  singleSignOn: { issuer: 'https://login.own.test', clientId: 'own-client' },
};
/** All components that the chart has. The last one has to be the last. */
const COMPONENTS = [
  ...['mqtt-tls', 'gateway-api', 'cert-manager', 'keda', 'monitoring', 'mongodb', 'valkey'],
  ...['sandbox', 'canary', 'tracing', 'single-sign-on', 'image-pull-secret'],
];
const IMAGES = ['api', 'delivery-worker', 'scheduler', 'device-gateway', 'dashboard', 'cli'];

/** Makes a copy of k8s/ with the changes, and an overlay of the components in it. @returns its folder */
function writeOwnOverlay(): string {
  const folder = createTemporaryFolder();
  const unused = new Set(CHANGES);
  cpSync(`${ROOT}k8s`, folder, {
    recursive: true,
    filter(from, to) {
      if (!from.endsWith('.yaml')) return true;
      let text = readFileSync(from, 'utf8');
      for (const change of CHANGES) {
        const changed = text.replace(...change);
        if (changed !== text) unused.delete(change);
        text = changed;
      }
      mkdirSync(join(to, '..'), { recursive: true });
      writeFileSync(to, text);
      return false;
    },
  });
  expect([...unused]).toEqual([]);
  const kustomization = {
    namespace: 'push',
    resources: ['../../base'],
    components: COMPONENTS.map((name) => `../../components/${name}`),
    images: [...IMAGES, 'sandbox'].map((name) => ({
      name: `carillon/${name}`,
      newName: `registry.own.test/push/${name}`,
      newTag: '9.9.9',
    })),
    replicas: [
      { name: 'scheduler', count: 3 },
      { name: 'dashboard', count: 1 },
    ],
  };
  mkdirSync(`${folder}/overlays/own`);
  // JSON is YAML.
  writeFileSync(`${folder}/overlays/own/kustomization.yaml`, JSON.stringify(kustomization));
  return `${folder}/overlays/own`;
}

test('every component with every value changed is what kustomize makes of the same changes', async () => {
  const chart = sort(await renderWithHelm(VALUES, 'push'));
  expect(chart).toEqual(await renderOverlay(writeOwnOverlay()));
});

test('annotations, classes and labels of a cluster are added to what they are for', async () => {
  const annotations = { 'own/annotation': 'true' };
  const labels = { release: 'prometheus' };
  const chart = await renderWithHelm(
    {
      expose: { by: 'ingress', class: 'own', annotations, loadBalancerAnnotations: { lb: 'own' } },
      monitoring: { enabled: true, labels },
    },
    'push',
  );
  const find = (kind: string, name = 'carillon') => sort(chart)[`${kind} ${name}`];
  for (const name of ['api', 'console'])
    expect(find('Ingress', name)).toMatchObject({
      metadata: { annotations },
      spec: { ingressClassName: 'own' },
    });
  expect(find('Service', 'device-gateway-public')?.metadata).toMatchObject({
    annotations: { lb: 'own' },
  });
  for (const kind of ['PodMonitor', 'PrometheusRule'])
    expect(find(kind)?.metadata.labels).toEqual(labels);
});

test('all pods get the node selector and the tolerations', async () => {
  const pod = {
    nodeSelector: { 'own/pool': 'push' },
    tolerations: [{ key: 'own/pool', operator: 'Exists' }],
  };
  const others = { sandbox: { enabled: true }, canary: { enabled: true } };
  const chart = await renderWithHelm({ ...pod, ...others, trialServers: { enabled: true } }, 'own');
  const pods = findWorkloads(chart).map((one) => one.pod);
  expect(pods).toHaveLength(9);
  expect(pods).toEqual(pods.map(() => expect.objectContaining(pod)));
});

test('the policies allow the ports of the values to MongoDB and Redis', async () => {
  const networkPolicies = { mongodbPorts: [27_018], redisPorts: [6_380, 26_379] };
  const chart = sort(await renderWithHelm({ networkPolicies }, 'own'));
  for (const [name, ports] of [
    ['mongodb-clients', networkPolicies.mongodbPorts],
    ['redis-clients', networkPolicies.redisPorts],
  ] as const)
    expect(chart[`NetworkPolicy ${name}`]?.spec).toMatchObject({
      egress: [{ ports: ports.map((port) => ({ port, protocol: 'TCP' })) }],
    });
});

test('maxReplicas does not limit what no autoscaler scales', async () => {
  const values = { autoscaling: 'hpa', replicas: { deviceGateway: 30 } };
  const chart = sort(await renderWithHelm(values, 'own'));
  expect(chart['Deployment device-gateway']?.spec).toMatchObject({ replicas: 30 });
});

test('without network policies the chart makes all other objects', async () => {
  const chart = sort(await renderWithHelm({ networkPolicies: { enabled: false } }, 'carillon'));
  const base = Object.entries(await renderOverlay('k8s/base'));
  const others = base.filter(([, { kind }]) => kind !== 'NetworkPolicy');
  expect(others.length).toBeLessThan(base.length);
  expect(chart).toEqual(Object.fromEntries(others));
});

test.each([
  [{ replicas: { apis: 3 } }, /apis/],
  [{ replicas: { api: 'three' } }, /replicas\/api|replicas\.api/],
  [{ expose: { by: 'nginx' } }, /'ingress'/],
  [{ tracing: { endpoint: 'collector' } }, /tracing/],
  [{ replicas: { scheduler: 0 } }, /replicas.scheduler/],
  [{ maxReplicas: { api: 0 } }, /maxReplicas.api/],
  [{ hosts: { api: 'push.own.test:8443' } }, /hosts.api/],
  [{ expose: { annotations: { own: true } } }, /expose.annotations/],
  [{ monitoring: { labels: ['own'] } }, /monitoring.labels/],
  [{ networkPolicies: { redisPorts: [] } }, /redisPorts/],
  [{ autoscaling: 'keda' }, /keda needs monitoring/],
  [{ autoscaling: 'hpa', replicas: { api: 11 } }, /maxReplicas.api: 10 is less .*replicas.api: 11/],
])('the values %j are refused', async (values, refusal) => {
  await expect(renderWithHelm(values, 'push')).rejects.toThrow(refusal);
});

test('helm lint finds no fault', async () => {
  expect(await runHelm(['lint', '--strict', 'k8s/chart'])).toContain('0 chart(s) failed');
});

test('the command of the page takes the values of the page', async () => {
  const values = join(createTemporaryFolder(), 'values.yaml');
  writeFileSync(values, codeBlock(PAGE, 'With Helm'));
  // Without a cluster.
  const command = codeBlock(PAGE, 'With Helm', 1).replace(' upgrade --install ', ' template ');
  const [program, ...args] = command.replace(' values.yaml', ` ${values}`).split(' ');
  expect(program).toBe('helm');
  const output = await runHelm(args);
  expect(output).toContain('image: "registry.example.com/carillon/api:');
  expect(output).toContain('kind: Ingress');
});
