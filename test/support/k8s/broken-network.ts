import {
  ALL,
  type BrokenManifest,
  DEV,
  inContainer,
  inEnv,
  inPeers,
  inSpec,
  MONGODB_REPLICA_SET,
  PLAIN,
  PROD,
  remove,
  VALKEY_SENTINEL,
} from './change.ts';
import type { NetworkPeer } from './manifest.ts';

function pods(name: string): NetworkPeer {
  return { podSelector: { matchLabels: { 'app.kubernetes.io/name': name } } };
}

function namespace(name: string): NetworkPeer {
  return { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': name } } };
}

/** Manifests that break rules of the network. */
export const BROKEN_NETWORK: readonly BrokenManifest[] = [
  [
    'flows: device-gateway from namespace envoy-gateway-system 8883/TCP is not allowed',
    PROD,
    (manifests) => remove(manifests, 'NetworkPolicy', 'devices'),
  ],
  [
    'flows: delivery-worker-providers to sandbox 4007/TCP is not allowed',
    ALL,
    (manifests) => remove(manifests, 'NetworkPolicy', 'sandbox-clients'),
  ],
  [
    'flows: sandbox from delivery-worker-providers 4008/TCP is not allowed',
    ALL,
    (manifests) => remove(manifests, 'NetworkPolicy', 'sandbox'),
  ],
  [
    'flows: scheduler from namespace monitoring 9000/TCP is not allowed',
    PROD,
    inSpec('NetworkPolicy', 'metrics', (s) =>
      s.podSelector?.matchExpressions?.[0]?.values?.splice(2, 1),
    ),
  ],
  [
    'flows: api to internet 443/TCP has no use',
    PROD,
    inSpec('NetworkPolicy', 'providers', (s) =>
      Object.assign(s, {
        podSelector: { matchLabels: { 'app.kubernetes.io/part-of': 'carillon' } },
      }),
    ),
  ],
  [
    'flows: migrate to any 6379/TCP has no use',
    PROD,
    inSpec('NetworkPolicy', 'redis-clients', (s) => Object.assign(s, { podSelector: {} })),
  ],
  [
    'flows: scheduler to any on all ports has no use',
    PROD,
    inSpec('NetworkPolicy', 'dns', (s) => Object.assign(s, { egress: [{}] })),
  ],
  // Clients of data servers that have no such setting, or are not of the set.
  [
    'flows: mongodb from sandbox 27017/TCP has no use',
    MONGODB_REPLICA_SET,
    inSpec('NetworkPolicy', 'mongodb', (s) => s.ingress?.[0]?.from?.push(pods('sandbox'))),
  ],
  [
    'flows: mongodb from mongodb 27017/TCP is not allowed',
    MONGODB_REPLICA_SET,
    inSpec('NetworkPolicy', 'mongodb', (s) => s.ingress?.[0]?.from?.pop()),
  ],
  [
    'flows: valkey-sentinel from valkey 26379/TCP is not allowed',
    VALKEY_SENTINEL,
    inSpec('NetworkPolicy', 'valkey-sentinel', (s) => s.ingress?.[0]?.from?.splice(1, 1)),
  ],
  [
    'flows: valkey from pods {} 6379/TCP has no use',
    DEV,
    inPeers('ingress', 'valkey', [{ podSelector: {} }]),
  ],
  [
    'flows: valkey from scheduler 6379/TCP has no use',
    DEV,
    inEnv('REDIS_URL_FILE', undefined, 'scheduler'),
  ],
  // An egress to others than the pods, the namespace or the internet that the settings name.
  [
    'flows: mongodb to any 27017/TCP has no use',
    MONGODB_REPLICA_SET,
    inPeers('egress', 'mongodb', undefined),
  ],
  [
    'flows: api to any 26379/TCP has no use',
    VALKEY_SENTINEL,
    inPeers('egress', 'sentinel-clients', undefined),
  ],
  [
    'flows: delivery-worker-providers to any 4007/TCP has no use',
    ALL,
    inPeers('egress', 'sandbox-clients', undefined),
  ],
  [
    'flows: delivery-worker-providers to sandbox 4008/TCP is not allowed',
    ALL,
    inPeers('egress', 'sandbox-clients', [pods('canary')]),
  ],
  [
    'flows: delivery-worker to internet 443/TCP has no use',
    ALL,
    inSpec('NetworkPolicy', 'providers', (s) => Object.assign(s, pods('delivery-worker'))),
  ],
  [
    'flows: delivery-worker to internet with 192.0.0.0/24 443/TCP has no use',
    PROD,
    inSpec('NetworkPolicy', 'providers', (s) =>
      s.egress?.[0]?.to?.[0]?.ipBlock?.except?.splice(6, 1),
    ),
  ],
  [
    'flows: delivery-worker to internet without ::/0 443/TCP has no use',
    PROD,
    inSpec('NetworkPolicy', 'providers', (s) => s.egress?.[0]?.to?.pop()),
  ],
  [
    'flows: delivery-worker to {"cidr":"10.1.0.0/16"} 443/TCP has no use',
    PROD,
    inSpec('NetworkPolicy', 'providers', (s) =>
      s.egress?.[0]?.to?.push({ ipBlock: { cidr: '10.1.0.0/16' } }),
    ),
  ],
  [
    'flows: api to namespace monitoring 4318/TCP has no use',
    ALL,
    inPeers('egress', 'traces', [namespace('monitoring')]),
  ],
  [
    'flows: api to namespace traces 4318/TCP is not allowed',
    ALL,
    inEnv('OTEL_EXPORTER_OTLP_ENDPOINT', 'http://otel-collector.traces.svc.cluster.local:4318'),
  ],
  // An ingress from others than the proxy, Prometheus or the pods that the settings name.
  [
    'flows: api from namespace default 4000/TCP has no use',
    PROD,
    inPeers('ingress', 'api-clients', [namespace('default')]),
  ],
  [
    'flows: dashboard from namespace ingress-nginx 4010/TCP is not allowed',
    PLAIN,
    inPeers('ingress', 'operators', [namespace('envoy-gateway-system')]),
  ],
  [
    'flows: device-gateway from {"namespaceSelector":{}} 8083/TCP has no use',
    PROD,
    inPeers('ingress', 'devices', [{ namespaceSelector: {} }]),
  ],
  [
    'flows: scheduler from namespace carillon 9000/TCP has no use',
    PROD,
    inPeers('ingress', 'metrics', [namespace('carillon')]),
  ],
  [
    'flows: sandbox from delivery-worker 4007/TCP has no use',
    ALL,
    inPeers('ingress', 'sandbox', [pods('delivery-worker')]),
  ],
  [
    'flows: device-gateway from any 8083/TCP is not allowed',
    PROD,
    (manifests) => remove(manifests, 'HTTPRoute', 'mqtt-websocket'),
  ],
  [
    'flows: api from namespace envoy-gateway-system 4000-4010/TCP has no use',
    PROD,
    inSpec('NetworkPolicy', 'api-clients', (s) =>
      Object.assign(s.ingress?.[0]?.ports?.[0] ?? {}, { endPort: 4_010 }),
    ),
  ],
  // Kubernetes ignores its rules.
  [
    'flows: api from namespace envoy-gateway-system 4000/TCP is not allowed',
    PROD,
    inSpec('NetworkPolicy', 'api-clients', (s) => Object.assign(s, { policyTypes: ['Egress'] })),
  ],
  [
    'default deny: api is selected by no policy',
    PROD,
    (manifests) => remove(manifests, 'NetworkPolicy', 'default-deny'),
  ],
  [
    'flows: mongodb from scheduler 27017/TCP is not allowed',
    DEV,
    inSpec('NetworkPolicy', 'mongodb', (s) =>
      s.ingress?.[0]?.from?.[0]?.podSelector?.matchExpressions?.[0]?.values?.splice(2, 1),
    ),
  ],
  [
    'flows: valkey from migrate 6379/TCP has no use',
    DEV,
    inSpec('NetworkPolicy', 'valkey', (s) =>
      s.ingress?.[0]?.from?.[0]?.podSelector?.matchExpressions?.[0]?.values?.push('migrate'),
    ),
  ],
  ['flows: valkey from any 6379/TCP has no use', DEV, inPeers('ingress', 'valkey', undefined)],
  [
    'private ranges: 169.254.0.0/16 can be reached',
    PROD,
    inPeers('egress', 'providers', undefined),
  ],
  ['client addresses: TRUST_PROXY is wrong', PROD, inEnv('TRUST_PROXY', '0')],
  ['client addresses: TRUST_PROXY is wrong', DEV, inEnv('TRUST_PROXY', '1')],
  [
    'client addresses: TRUST_PROXY is wrong for the dashboard',
    PLAIN,
    inEnv('TRUST_PROXY', '0', 'dashboard'),
  ],
  [
    'client addresses: PROXY_PROTOCOL is wrong',
    PROD,
    inEnv('PROXY_PROTOCOL', 'off', 'device-gateway'),
  ],
  [
    'client addresses: anyone can forge the address that the api reads',
    PLAIN,
    inPeers('ingress', 'api-clients', undefined),
  ],
  [
    'client addresses: anyone can forge the address that the dashboard reads',
    PROD,
    inPeers('ingress', 'operators', undefined),
  ],
  [
    'console address: CONSOLE_URL is not https://console.example.com',
    PLAIN,
    inEnv('CONSOLE_URL', 'https://push.example.com', 'dashboard'),
  ],
  [
    'console address: CONSOLE_URL is not https://console.example.com',
    PROD,
    inEnv('CONSOLE_URL', undefined, 'dashboard'),
  ],
  [
    'console address: single sign-on has no CONSOLE_URL',
    ALL,
    inEnv('CONSOLE_URL', undefined, 'dashboard'),
  ],
  [
    'flows: dashboard to any 443/TCP is not allowed',
    ALL,
    (manifests) => remove(manifests, 'NetworkPolicy', 'openid-provider'),
  ],
  [
    'client addresses: anyone can forge the address that the device-gateway reads',
    PROD,
    inPeers('ingress', 'devices', undefined),
  ],
  [
    'client addresses: device-gateway-public hides',
    PLAIN,
    inSpec('Service', 'device-gateway-public', (s) =>
      Object.assign(s, { externalTrafficPolicy: 'Cluster' }),
    ),
  ],
  [
    'flows: scheduler to namespace observability 4318/TCP is not allowed',
    ALL,
    (manifests) => remove(manifests, 'NetworkPolicy', 'traces'),
  ],
  [
    'flows: api to any 443/TCP is not allowed',
    ALL,
    inEnv('OTEL_EXPORTER_OTLP_ENDPOINT', 'https://traces.example.com'),
  ],
  [
    'traces: delivery-worker-providers does not export',
    ALL,
    inEnv('OTEL_EXPORTER_OTLP_ENDPOINT', undefined, 'delivery-worker-providers'),
  ],
  ['flows: api to any 4318/TCP has no use', ALL, inPeers('egress', 'traces', undefined)],
  [
    'flows: canary to any 8883/TCP is not allowed',
    ALL,
    (manifests) => remove(manifests, 'NetworkPolicy', 'canary'),
  ],
  [
    'scraped: the metrics of scheduler are not scraped',
    PROD,
    inSpec('PodMonitor', 'carillon', (s) =>
      s.selector?.matchExpressions?.[0]?.values?.splice(2, 1),
    ),
  ],
  ['services: api has the port http and no pod has it', PROD, inContainer((c) => c.ports?.shift())],
];
