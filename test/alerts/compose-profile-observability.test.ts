import { spawnSync } from 'node:child_process';
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { ROOT } from '../support/first-run/test-home.ts';
import { createTemporaryFolder } from '../support/temporary-folder.ts';

interface Service {
  networks: string[];
  volumes?: string[];
  profiles?: string[];
  environment?: Record<string, string>;
  secrets?: string[];
}

const compose = parse(readFileSync(join(ROOT, 'docker-compose.yml'), 'utf8'), { merge: true }) as {
  services: Record<string, Service>;
  volumes: object;
  secrets: object;
};

function findService(name: string): Service {
  const service = compose.services[name];
  if (service === undefined) throw new Error(`docker-compose.yml has no ${name}`);
  return service;
}

/** Returns the file or folder of this repository that a path in a container shows. */
function findSource(service: string, path: string): string {
  const mounts = (findService(service).volumes ?? []).map((volume) => volume.split(':'));
  const [mount] = mounts
    .filter(([source = '', target = '']) => source.startsWith('.') && path.startsWith(target))
    .toSorted(([, a = ''], [, b = '']) => b.length - a.length);
  if (mount === undefined) throw new Error(`${service} shows nothing of the repository at ${path}`);
  const [source = '', target = ''] = mount;
  return join(ROOT, source, path.slice(target.length));
}

const readYaml = (path: string): unknown => parse(readFileSync(path, 'utf8'));

const PROMETHEUS_CONFIG = '/etc/prometheus/prometheus.yml';

test('prometheus accepts its configuration, with the rules where it finds them', () => {
  const text = readFileSync(findSource('prometheus', PROMETHEUS_CONFIG), 'utf8');
  const { rule_files: rules } = parse(text) as { rule_files: string[] };
  expect(rules).not.toEqual([]);
  let local = text;
  for (const pattern of rules) {
    const source = findSource('prometheus', pattern);
    expect(globSync(source)).not.toEqual([]);
    local = local.replace(pattern, source);
  }
  const path = join(createTemporaryFolder(), 'prometheus.yml');
  writeFileSync(path, local);
  const { status, stdout, stderr } = spawnSync('promtool', ['check', 'config', path]);
  expect({ status, output: `${stdout}${stderr}` }).toMatchObject({ status: 0 });
});

test('prometheus scrapes each service at its ops port, in a network that both have', () => {
  const config = readYaml(findSource('prometheus', PROMETHEUS_CONFIG)) as {
    scrape_configs: { dns_sd_configs: { names: string[]; port: number }[] }[];
  };
  const [discovery] = config.scrape_configs.flatMap(({ dns_sd_configs }) => dns_sd_configs);
  const ready = Object.entries(compose.services).filter(
    ([, { environment = {}, profiles }]) =>
      profiles === undefined && 'REDIS_URL_FILE' in environment,
  );
  expect(discovery?.port).toBe(9_000);
  expect(discovery?.names.toSorted()).toEqual(ready.map(([name]) => name).toSorted());
  const [network] = findService('prometheus').networks;
  for (const [, { networks }] of ready) expect(networks).toContain(network);
});

test('grafana has Prometheus as its data source, and every dashboard', () => {
  const provisioning = (folder: string) =>
    globSync(`${findSource('grafana', `/etc/grafana/provisioning/${folder}`)}/*.yaml`);
  const [dataSource] = provisioning('datasources').flatMap(
    (path) => (readYaml(path) as { datasources: { type: string; url: string }[] }).datasources,
  );
  const { hostname, port } = new URL(dataSource?.url ?? '');
  expect({ type: dataSource?.type, port }).toEqual({ type: 'prometheus', port: '9090' });
  expect(findService(hostname).networks).toEqual(findService('grafana').networks);
  const providers = provisioning('dashboards').flatMap(
    (path) => (readYaml(path) as { providers: { options: { path: string } }[] }).providers,
  );
  const shown = providers.flatMap(({ options }) =>
    globSync(`${findSource('grafana', options.path)}/*.json`).map((path) => basename(path)),
  );
  const all = globSync(join(ROOT, 'k8s/components/monitoring/dashboards/*.json'));
  expect(shown.toSorted()).toEqual(all.map((path) => basename(path)).toSorted());
});

test('every dashboard uses the data source that its viewer chooses among those of Prometheus', () => {
  for (const path of globSync(join(ROOT, 'k8s/components/monitoring/dashboards/*.json'))) {
    const used = new Set<string>();
    const dashboard = JSON.parse(readFileSync(path, 'utf8'), (key, value) => {
      if (key === 'datasource') used.add(`${value.type}:${value.uid}`);
      return value;
    }) as { templating: { list: { name: string; type: string; query: string }[] } };
    const chosen = { name: 'datasource', type: 'datasource', query: 'prometheus' };
    expect(dashboard.templating.list[0]).toMatchObject(chosen);
    expect([...used]).toEqual([`prometheus:$\{datasource}`]);
  }
});

test('the volumes and secrets of both are declared', () => {
  for (const name of ['prometheus', 'grafana']) {
    const { volumes = [], secrets = [] } = findService(name);
    const named = volumes.map((volume) => volume.split(':')[0] ?? '').filter((v) => !/^\./.test(v));
    expect(Object.keys(compose.volumes)).toEqual(expect.arrayContaining(named));
    expect(Object.keys(compose.secrets)).toEqual(expect.arrayContaining(secrets));
  }
});
