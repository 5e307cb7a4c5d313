// Renders the Helm chart k8s/chart: what kustomize renders, with values in place of names and conditions around components.

import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { inspect } from 'node:util';
import { parse, stringify } from 'yaml';
import { ROOT, render } from '../test/support/k8s/render.ts';
import {
  Guarded,
  isMap,
  type Node,
  nameOf,
  type Plain,
  type PlainMap,
  print,
  Templates,
  Text,
  type Toggle,
} from './helm-templates.ts';

export const CHART = 'k8s/chart';
const MONITORING = `${ROOT}k8s/components/monitoring/`;

const POLICIES = '.Values.networkPolicies.enabled';

/** What turns components on; `is` of one value exclude each other. A file of the chart is named after the last component. */
const TOGGLES: readonly Toggle[] = [
  { value: 'expose.by', is: 'ingress', components: ['mqtt-tls', 'ingress'] },
  { value: 'expose.by', is: 'gateway-api', components: ['mqtt-tls', 'gateway-api'] },
  { value: 'issuer', components: ['cert-manager'] },
  { value: 'autoscaling', is: 'hpa', components: ['hpa'] },
  { value: 'autoscaling', is: 'keda', components: ['keda'] },
  { value: 'monitoring.enabled', components: ['monitoring'] },
  { value: 'trialServers.enabled', components: ['mongodb'] },
  { value: 'trialServers.enabled', components: ['valkey'] },
  { value: 'sandbox.enabled', components: ['sandbox'] },
  { value: 'canary.enabled', components: ['canary'] },
  { value: 'tracing.endpoint', components: ['tracing'] },
  { value: 'singleSignOn.issuer', components: ['single-sign-on'] },
];

/** A text, everywhere or at a path, that an expression replaces. `$1` is the path's or else the text's first group. */
interface Marker {
  at?: RegExp;
  text?: RegExp;
  by: string;
}

const MARKERS: readonly Marker[] = [
  { at: /^\S+ \S+ metadata namespace$/, by: '.Release.Namespace' },
  { text: /(?<=namespace=")carillon(?=")/, by: '.Release.Namespace' },
  {
    text: /^carillon\/([\w-]+):\d[\w.-]*$/,
    by: 'printf "%s/$1:%s" .Values.image.registry (.Values.image.tag | default .Chart.AppVersion)',
  },
  { text: /push\.example\.com/, by: '.Values.hosts.api' },
  { text: /console\.example\.com/, by: '.Values.hosts.console' },
  { text: /mqtt\.example\.com/, by: '.Values.hosts.mqtt' },
  { at: / env WEB_PUSH_CONTACT value$/, by: '.Values.webPushContact' },
  { text: /^carillon-secrets$/, by: '.Values.secrets.carillon' },
  { text: /^api-tls$/, by: '.Values.secrets.apiTls' },
  { text: /^console-tls$/, by: '.Values.secrets.consoleTls' },
  { text: /^device-gateway-tls$/, by: '.Values.secrets.mqttTls' },
  { text: /^carillon-canary$/, by: '.Values.secrets.canary' },
  {
    at: /^Deployment (api|delivery-worker|scheduler|device-gateway|dashboard) spec replicas$/,
    by: '.Values.replicas.$1',
  },
  { at: /^\w+ (\S+) spec minReplica(?:s|Count)$/, by: '.Values.replicas.$1' },
  { at: /^\w+ (\S+) spec maxReplica(?:s|Count)$/, by: '.Values.maxReplicas.$1' },
  { at: / gatewayClassName$/, by: '.Values.expose.class | default "envoy"' },
  { text: /^(ingress-nginx|envoy-gateway-system)$/, by: '.Values.expose.namespace | default "$1"' },
  { text: /^letsencrypt$/, by: '.Values.issuer' },
  { at: /metadata\.name$/, text: /^monitoring$/, by: '.Values.monitoring.namespace' },
  { text: /(?<=prometheus-operated\.)monitoring/, by: '.Values.monitoring.namespace' },
  { at: / env OTEL_EXPORTER_OTLP_ENDPOINT value$/, by: '.Values.tracing.endpoint' },
  { text: /^observability$/, by: '.Values.tracing.namespace' },
  {
    at: /^NetworkPolicy traces .* port$/,
    by: '.Values.tracing.endpoint | regexFind "[0-9]+$" | int',
  },
  { at: / env OIDC_ISSUER value$/, by: '.Values.singleSignOn.issuer' },
  { at: / env OIDC_CLIENT_ID value$/, by: '.Values.singleSignOn.clientId' },
];

const ALERTS =
  '(.Files.Get "files/prometheus-rule.yaml" | replace "console.example.com" .Values.hosts.console | fromYaml)';

const portsOf = (server: string) =>
  `ports:\n  {{- range .Values.networkPolicies.${server}Ports }}\n  - port: {{ . }}\n    protocol: TCP\n  {{- end }}`;

/** Maps and lists that other lines replace. Those from files hold templates of Prometheus and Grafana. */
const BLOCKS: readonly (readonly [at: RegExp, text: string])[] = [
  [/^NetworkPolicy mongodb-clients spec egress 0 ports$/, portsOf('mongodb')],
  [/^NetworkPolicy redis-clients spec egress 0 ports$/, portsOf('redis')],
  [
    /^Ingress \S+ metadata annotations$/,
    'annotations:\n  {{- .Values.expose.annotations | toYaml | nindent INDENT+2 }}',
  ],
  [/^PrometheusRule carillon spec$/, `spec:\n  {{- ${ALERTS}.spec | toYaml | nindent INDENT+2 }}`],
  [
    /^ConfigMap carillon-dashboards data$/,
    'data:\n  {{- (.Files.Glob "files/dashboards/*.json").AsConfig | nindent INDENT+2 }}',
  ],
];

/** Keys that no component has, because they are a cluster's own, by the map that gets them. */
const ADDED: readonly (readonly [to: RegExp, value: string, key: string, text: string])[] = [
  [/^ServiceAccount \S+$/, 'image.pullSecret', 'imagePullSecrets', '\n  - name: {{ . | quote }}'],
  [/^Ingress \S+ spec$/, 'expose.class', 'ingressClassName', ' {{ . | quote }}'],
  [/^Service device-gateway-public metadata$/, 'expose.loadBalancerAnnotations', 'annotations', ''],
  [/^(?:PodMonitor|PrometheusRule) \S+ metadata$/, 'monitoring.labels', 'labels', ''],
  [/^\S+ \S+ spec template spec$/, 'nodeSelector', 'nodeSelector', ''],
  [/^\S+ \S+ spec template spec$/, 'tolerations', 'tolerations', ''],
];

/** Renders the base and the components by kustomize. @returns the objects by kind and name */
async function renderObjects(components: readonly string[]): Promise<PlainMap> {
  const folder = mkdtempSync(join(tmpdir(), 'carillon-chart-'));
  try {
    const pathOf = (name: string) => relative(folder, `${ROOT}k8s/${name}`);
    const kustomization = {
      namespace: 'carillon',
      resources: [pathOf('base')],
      components: components.map((name) => pathOf(`components/${name}`)),
    };
    writeFileSync(join(folder, 'kustomization.yaml'), stringify(kustomization));
    const objects = (await render(folder)).filter(({ kind }) => kind !== 'Namespace');
    const entries = objects.map((one) => [`${one.kind} ${one.metadata.name}`, one]);
    return Object.fromEntries(entries) as unknown as PlainMap;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Puts expressions in place of markers. @throws Error when a marker is nowhere */
class Annotator {
  readonly #unused = new Set<unknown>([...MARKERS, ...BLOCKS, ...ADDED]);

  annotate(node: Node, path: string): Node {
    if (node instanceof Guarded) {
      const otherwise = node.otherwise && this.annotate(node.otherwise, path);
      return new Guarded(node.when, this.annotate(node.node, path), otherwise);
    }
    const block = BLOCKS.find(([at]) => at.test(path));
    if (block !== undefined) {
      this.#unused.delete(block);
      return new Text(block[1], true);
    }
    if (Array.isArray(node))
      return node.map((item, index) => this.#annotateItem(item, path, index));
    if (isMap(node)) return this.#annotateMap(node, path);
    return this.#replaceMarker(node as Plain, path);
  }

  expectAllUsed(): void {
    for (const unused of this.#unused) throw new Error(`Nothing in k8s/ fits ${inspect(unused)}`);
  }

  #annotateItem(item: Node, path: string, index: number): Node {
    const inner = item instanceof Guarded ? item.node : item;
    return this.annotate(item, `${path} ${nameOf(inner) ?? index}`);
  }

  #annotateMap(map: Record<string, Node>, path: string): Node {
    const entries = Object.entries(map).map(([key, value]) => [
      key,
      this.annotate(value, `${path} ${key}`),
    ]);
    const annotated: Record<string, Node> = Object.fromEntries(entries);
    for (const added of ADDED.filter(([to]) => to.test(path))) {
      const [, value, key, text] = added;
      if (key in map) throw new Error(`${path} has ${key} of its own`);
      this.#unused.delete(added);
      const content = text || '\n  {{- toYaml . | nindent INDENT+2 }}';
      annotated[key] = new Text(
        `{{- with .Values.${value} }}\n${key}:${content}\n{{- end }}`,
        true,
      );
    }
    const [, service] = /^Deployment (\S+) .* containers \1 resources$/.exec(path) ?? [];
    if (service === undefined || service === 'canary') return annotated;
    const own = new Text('{{- toYaml . | nindent INDENT }}', true);
    return new Guarded(`with .Values.resources.${toCamelCase(service)}`, own, annotated);
  }

  #replaceMarker(value: Plain, path: string): Node {
    const text = String(value);
    for (const marker of MARKERS) {
      const place = (marker.at ?? /^/).exec(path);
      const found = (marker.text ?? /^.*$/s).exec(text);
      if (place === null || found === null) continue;
      this.#unused.delete(marker);
      const group = place[1] === undefined ? (found[1] ?? '') : toCamelCase(place[1]);
      const by = marker.by.replaceAll('$1', group);
      if (typeof value === 'number') return new Text(by);
      const [before, after] = [
        text.slice(0, found.index),
        text.slice(found.index + found[0].length),
      ];
      if (before === '' && after === '') return new Text(`${by} | quote`);
      const format = `${before.replaceAll('%', '%%')}%s${after.replaceAll('%', '%%')}`;
      const literal = format.includes('"') ? `\`${format}\`` : `"${format}"`;
      return new Text(`printf ${literal} ${by.includes(' ') ? `(${by})` : by} | quote`);
    }
    return value;
  }
}

function toCamelCase(name: string): string {
  return name.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
}

/** Chooses the file of an object, and the condition of the whole file. */
function placeObject(id: string, node: Node): { file: string; when: string } {
  const [kind, name] = id.split(' ');
  if (node instanceof Guarded) return { file: '', when: node.when };
  return kind === 'NetworkPolicy'
    ? { file: 'network-policies', when: POLICIES }
    : { file: name ?? '', when: '' };
}

/** Renders the templates, by their paths in the chart. */
async function renderTemplates(): Promise<Map<string, string>> {
  const base = renderObjects([]);
  const renderings = await Promise.all(
    TOGGLES.map(async (toggle) => ({ toggle, value: await renderObjects(toggle.components) })),
  );
  const templates = new Templates(TOGGLES);
  const merged = templates.merge([{ value: await base }, ...renderings]) as Record<string, Node>;
  const annotator = new Annotator();
  const texts = new Map<string, { when: string; objects: string[] }>();
  for (const [id, node] of Object.entries(merged)) {
    const { file, when } = placeObject(id, node);
    const owner = renderings.find(({ value }) => id in value)?.toggle.components.at(-1) ?? '';
    const path = `templates/${file || owner}.yaml`;
    const object = node instanceof Guarded ? node.node : node;
    const lines = print(annotator.annotate(object, id)).join('\n');
    const { objects } = texts.get(path) ?? { objects: [] };
    texts.set(path, { when, objects: [...objects, guardPolicy(id, when, `---\n${lines}`)] });
  }
  annotator.expectAllUsed();
  const entries = [...texts].map(([path, { when, objects }]) => {
    const text = [
      '{{- /* Written by `npm run k8s:chart` from k8s/base and k8s/components; change those. */}}',
      ...(when === '' ? objects : [`{{- if ${when} }}`, ...objects, '{{- end }}']),
    ].join('\n');
    return [path, `${text}\n`] as const;
  });
  return new Map(entries);
}

function guardPolicy(id: string, ofFile: string, text: string): string {
  if (!id.startsWith('NetworkPolicy ') || ofFile === POLICIES) return text;
  return `{{- if ${POLICIES} }}\n${text}\n{{- end }}`;
}

const STRINGS = { type: 'object', additionalProperties: { type: 'string' } };
const HOST = { type: 'string', pattern: '^[a-z0-9-]+(\\.[a-z0-9-]+)*$' };
const PORTS = {
  type: 'array',
  minItems: 1,
  items: { type: 'integer', minimum: 1, maximum: 65_535 },
};

/** Refuses values that don't fit together. */
const CHECKS = `{{- /* Written by \`npm run k8s:chart\`. */}}
{{- $scaler := .Values.autoscaling }}
{{- if and (eq $scaler "keda") (not .Values.monitoring.enabled) }}
{{- fail "autoscaling: keda needs monitoring.enabled: true" }}
{{- end }}
{{- range $name, $max := .Values.maxReplicas }}
{{- $isScaled := or (eq $scaler "keda") (and (eq $scaler "hpa") (ne $name "deviceGateway")) }}
{{- $min := index $.Values.replicas $name }}
{{- if and $isScaled (gt (int $min) (int $max)) }}
{{- fail (printf "maxReplicas.%s: %d is less than replicas.%s: %d" $name (int $max) $name (int $min)) }}
{{- end }}
{{- end }}
`;

/** Schemas of values that their defaults don't tell. */
const SCHEMAS: Readonly<Record<string, object>> = {
  ...{ 'hosts.api': HOST, 'hosts.console': HOST, 'hosts.mqtt': HOST },
  ...{ 'expose.annotations': STRINGS, 'expose.loadBalancerAnnotations': STRINGS },
  ...{ 'monitoring.labels': STRINGS, nodeSelector: STRINGS },
  tolerations: { type: 'array', items: { type: 'object' } },
  ...{ 'networkPolicies.mongodbPorts': PORTS, 'networkPolicies.redisPorts': PORTS },
  autoscaling: { enum: ['none', 'hpa', 'keda'] },
  'expose.by': { enum: ['none', 'ingress', 'gateway-api'] },
  'tracing.endpoint': { type: 'string', pattern: '^(https?://.+:[0-9]+)?$' },
};

function describeValue(value: Plain, path: string): object {
  const own = SCHEMAS[path];
  if (own !== undefined) return own;
  if (!isMap(value))
    return typeof value === 'number' ? { type: 'integer', minimum: 1 } : { type: typeof value };
  const entries = Object.entries(value);
  if (entries.length === 0) return { type: 'object' };
  const prefix = path === '' ? '' : `${path}.`;
  const properties = entries.map(([key, one]) => [key, describeValue(one, `${prefix}${key}`)]);
  return {
    type: 'object',
    additionalProperties: false,
    properties: Object.fromEntries(properties),
  };
}

function renderSchema(values: PlainMap): string {
  const $schema = 'http://json-schema.org/draft-07/schema#';
  // Helm adds it to the values of a chart that another one includes.
  const schema = { $schema, ...describeValue({ ...values, global: {} }, '') };
  // Lists in one line, as the formatter has them.
  const inOneLine = (list: string) =>
    list.replaceAll(/\s+/g, ' ').replaceAll(/(?<=\[) | (?=\])/g, '');
  return `${JSON.stringify(schema, undefined, 2).replaceAll(/\[[^[\]]*\]/g, inOneLine)}\n`;
}

/** Renders the chart's files but for values.yaml, by their paths in the chart. */
export async function renderChart(): Promise<Map<string, string>> {
  const read = (path: string) => readFileSync(path, 'utf8');
  const { version, description } = JSON.parse(read(`${ROOT}package.json`));
  const chart = {
    apiVersion: 'v2',
    name: 'carillon',
    description,
    type: 'application',
    version,
    appVersion: version,
    kubeVersion: '>=1.30.0-0',
  };
  const dashboards = readdirSync(`${MONITORING}dashboards`).filter((name) =>
    name.endsWith('.json'),
  );
  return new Map([
    ['Chart.yaml', `# Written by \`npm run k8s:chart\`.\n${stringify(chart)}`],
    ['values.schema.json', renderSchema(parse(read(`${ROOT}${CHART}/values.yaml`)))],
    ...(await renderTemplates()),
    ['templates/checks.yaml', CHECKS],
    ['files/prometheus-rule.yaml', read(`${MONITORING}prometheus-rule.yaml`)],
    ...dashboards.map(
      (name) => [`files/dashboards/${name}`, read(`${MONITORING}dashboards/${name}`)] as const,
    ),
  ]);
}

/** Writes the chart's files but for values.yaml, and removes others. */
export async function writeChart(): Promise<void> {
  const files = await renderChart();
  for (const folder of ['templates', 'files'])
    rmSync(`${ROOT}${CHART}/${folder}`, { recursive: true, force: true });
  for (const [path, text] of files) {
    const absolute = `${ROOT}${CHART}/${path}`;
    mkdirSync(join(absolute, '..'), { recursive: true });
    writeFileSync(absolute, text);
  }
}
