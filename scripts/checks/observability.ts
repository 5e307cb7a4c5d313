import { basename, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { type Compose, readCompose } from './compose.ts';
import { compare, demand, findFiles, readText, readYaml } from './files.ts';

const PROMETHEUS_CONFIG = '/etc/prometheus/prometheus.yml';
const PROVISIONING = '/etc/grafana/provisioning';
const DASHBOARDS = 'k8s/components/monitoring/dashboards/*.json';
/** A metric in a query, with its selector. */
const METRIC = /\b(?:carillon|nodejs|process)_\w+(\{[^}]*\})?/g;
const NAMESPACE = 'namespace=~"$namespace"';

/** Returns the file or folder of this repository that a path in a container shows. */
export function findSource({ services }: Compose, service: string, path: string): string {
  const mounts = (services[service]?.volumes ?? []).map((volume) => volume.split(':'));
  const [mount] = mounts
    .filter(([source = '', target = '']) => source.startsWith('.') && path.startsWith(target))
    .toSorted(([, a = ''], [, b = '']) => b.length - a.length);
  if (mount === undefined) throw new Error(`${service} shows nothing of the repository at ${path}`);
  const [source = '', target = ''] = mount;
  return join(source, path.slice(target.length));
}

/** Checks Prometheus and Grafana of the profile `observability`, and the dashboards. */
export function checkObservability(root: string): string[] {
  const compose = readCompose(root);
  const dashboards = findFiles(root, DASHBOARDS);
  return [
    ...checkPrometheus(root, compose),
    ...checkGrafana(root, compose, dashboards),
    ...dashboards.flatMap((path) => checkDashboard(path, readText(root, path))),
    ...['prometheus', 'grafana'].flatMap((name) => {
      const { volumes = [], secrets = [] } = compose.services[name] ?? {};
      const named = volumes.map((volume) => volume.split(':')[0] ?? '');
      return [
        ...named.filter((volume) => !volume.startsWith('.') && !(volume in compose.volumes)),
        ...secrets.filter((secret) => !(secret in compose.secrets)),
      ].map((missing) => `docker-compose.yml: ${name} uses ${missing}, which is not declared`);
    }),
  ];
}

/** Checks that Prometheus finds its rules, and scrapes each service at its ops port in a network that both have. */
function checkPrometheus(root: string, compose: Compose): string[] {
  const { rule_files: rules, scrape_configs: configs } = readYaml<{
    rule_files: string[];
    scrape_configs: { dns_sd_configs: { names: string[]; port: number }[] }[];
  }>(root, findSource(compose, 'prometheus', PROMETHEUS_CONFIG));
  const found = rules.map((pattern) => findFiles(root, findSource(compose, 'prometheus', pattern)));
  const [discovery] = configs.flatMap(({ dns_sd_configs }) => dns_sd_configs);
  const ready = Object.entries(compose.services).filter(
    ([, { environment = {}, profiles }]) =>
      profiles === undefined && 'REDIS_URL_FILE' in environment,
  );
  const [network = 'none'] = compose.services.prometheus?.networks ?? [];
  const names = ready.map(([name]) => name).sort();
  return [
    ...demand(rules.length > 0, 'prometheus has no rules'),
    ...demand(
      found.every((paths) => paths.length > 0),
      'prometheus names rules that do not exist',
    ),
    ...demand(discovery?.port === 9_000, 'prometheus does not scrape port 9000'),
    ...compare('services that prometheus scrapes', discovery?.names.toSorted() ?? [], names),
    ...ready
      .filter(([, { networks }]) => !networks.includes(network))
      .map(([name]) => `${name} has no network with prometheus`),
  ];
}

/** Checks that Grafana has Prometheus as its data source, and every dashboard. */
function checkGrafana(root: string, compose: Compose, dashboards: readonly string[]): string[] {
  const read = <T>(folder: string) =>
    findFiles(root, `${findSource(compose, 'grafana', `${PROVISIONING}/${folder}`)}/*.yaml`).map(
      (path) => readYaml<T>(root, path),
    );
  const [source] = read<{ datasources: { type: string; url: string }[] }>('datasources').flatMap(
    ({ datasources }) => datasources,
  );
  const { hostname, port } = new URL(source?.url ?? 'http://none');
  const networksOf = (name: string) => compose.services[name]?.networks;
  const shown = read<{ providers: { options: { path: string } }[] }>('dashboards')
    .flatMap(({ providers }) => providers)
    .flatMap(({ options }) =>
      findFiles(root, `${findSource(compose, 'grafana', options.path)}/*.json`),
    );
  return [
    ...demand(source?.type === 'prometheus' && port === '9090', 'grafana has another data source'),
    ...demand(
      networksOf('grafana') !== undefined &&
        isDeepStrictEqual(networksOf(hostname), networksOf('grafana')),
      'grafana and its data source are in different networks',
    ),
    ...compare(
      'dashboards of grafana',
      shown.map((path) => basename(path)).sort(),
      dashboards.map((path) => basename(path)),
    ),
  ];
}

/** A choice of a dashboard's viewer. */
interface Variable {
  name: string;
  type: string;
  query: string | object;
  allValue?: string;
  current: { value?: string[] };
}

/**
 * Checks that a dashboard uses the data source and the namespaces that its viewer chooses. All namespaces also means none:
 * compose has no such label.
 */
function checkDashboard(path: string, text: string): string[] {
  const used = new Set<string>();
  const expressions: string[] = [];
  const dashboard = JSON.parse(text, (key, value) => {
    if (key === 'datasource') used.add(`${value.type}:${value.uid}`);
    if (key === 'expr') expressions.push(value);
    return value;
  }) as { templating: { list: Variable[] } };
  const [source, namespace] = dashboard.templating.list;
  const isOfNamespace = (expression: string) =>
    [...expression.matchAll(METRIC)].every(([, selector = '']) => selector.includes(NAMESPACE));
  return [
    ...demand(
      source?.name === 'datasource' &&
        source.type === 'datasource' &&
        source.query === 'prometheus',
      `${path} does not let its viewer choose the data source first`,
    ),
    ...demand(
      namespace?.name === 'namespace' &&
        namespace.allValue === '.*' &&
        namespace.current.value?.[0] === '$__all',
      `${path} does not let its viewer choose the namespace, or all`,
    ),
    ...demand(expressions.length > 0, `${path} has no queries`),
    ...expressions
      .filter((expression) => !isOfNamespace(expression))
      .map((expression) => `${path}: ${expression} is not of the namespace`),
    ...compare(`data sources of ${path}`, [...used], [`prometheus:$\{datasource}`]),
  ];
}
