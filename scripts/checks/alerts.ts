import { basename } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { compare, demand, findFiles, readText, readYaml } from './files.ts';
import { checkObservability } from './observability.ts';

const MONITORING = 'k8s/components/monitoring';
/** The console, which serves the runbooks: of compose, and on Kubernetes as overlays replace it. */
const COMPOSE_CONSOLE = 'http://127.0.0.1:4010';
const CONSOLE = 'https://console.example.com';
/** Longest page that is read at night. */
const MAX_RUNBOOK_LINES = 30;
/** Metrics of Node's process, of Prometheus itself and of the kubelet, which our code does not name. */
const FOREIGN_METRICS = [
  'container_memory_working_set_bytes',
  'container_spec_memory_limit_bytes',
  'nodejs_eventloop_utilization_histogram_count',
  'nodejs_eventloop_utilization_histogram_sum',
  'nodejs_heap_size_used_bytes',
  'process_cpu_seconds_total',
  'process_resident_memory_bytes',
  'process_start_time_seconds',
];
const METRIC = /\b(?:carillon|nodejs|process|container)_[a-z_]*[a-z]\b/g;

interface Alert {
  name: string;
  text: string;
}

/** Checks that each alert has its texts, its runbook and its unit tests, and what shows the metrics. */
export function checkAlerts(root: string): string[] {
  const rules = findFiles(root, `${MONITORING}/rules/*.yaml`);
  const unitTests = findFiles(root, 'test/alerts/rules/*.yaml');
  const runbooks = findFiles(root, 'docs/run/runbooks/*.md');
  const alerts = rules.flatMap((path) => readAlerts(readText(root, path)));
  const expected = unitTests.flatMap((path) => [
    ...readText(root, path).matchAll(/alertname="(\w+)".*\n.*\n +exp_samples: (.*)/g),
  ]);
  const names = (paths: readonly string[]) => paths.map((path) => basename(path));
  const ofRunbooks = runbooks.map((path) => basename(path, '.md'));
  return [
    ...demand(alerts.length > 15, 'there are hardly any alerts'),
    ...alerts.flatMap((alert) => checkAlert(alert, expected)),
    ...compare('docs/run/runbooks', ofRunbooks, alerts.map(({ name }) => name).sort()),
    ...runbooks.flatMap((path) => checkRunbook(path, readText(root, path), alerts)),
    ...compare('test/alerts/rules', names(unitTests), names(rules)),
    ...checkMetrics(root, [
      ...[...rules, ...runbooks, 'docs/run/operating.md', 'docs/run/scaling.md'],
      ...findFiles(root, `${MONITORING}/dashboards/*.json`, 'k8s/components/keda/*.yaml'),
    ]),
    ...checkMonitoring(root, rules),
    ...checkObservability(root),
  ];
}

function readAlerts(rules: string): Alert[] {
  const [, ...texts] = rules.split(/^ {6}- alert: /m);
  return texts.map((text) => ({ name: /^\w+/.exec(text)?.[0] ?? '', text }));
}

/** @param expected results in unit tests: the alert's name, and the samples */
function checkAlert({ name, text }: Alert, expected: readonly RegExpExecArray[]): string[] {
  const own = expected.filter(([, alert]) => alert === name);
  const results = [...new Set(own.map(([, , samples = '']) => samples))].sort();
  return [
    ...demand(/^ {10}severity: (critical|warning)$/m.test(text), `${name} has no severity`),
    ...demand(/^ {10}summary: \S/m.test(text), `${name} has no summary`),
    ...demand(/^ {10}description: \S/m.test(text), `${name} has no description`),
    ...demand(
      text.includes(`runbook_url: ${COMPOSE_CONSOLE}/runbooks/${name}\n`),
      `${name} does not name its runbook`,
    ),
    ...demand(/^ {8}# \w/m.test(text), `${name} has no reasons of its thresholds`),
    // One moment in which it fires, and one in which it does not.
    ...compare(`unit tests of ${name}`, results, ['[]', "[{ labels: '{}', value: 1 }]"]),
  ];
}

function checkRunbook(path: string, text: string, alerts: readonly Alert[]): string[] {
  const rule = alerts.find(({ name }) => name === basename(path, '.md'));
  const severity = /severity: (\w+)/.exec(rule?.text ?? '')?.[1];
  const { length } = text.split('\n').slice(1);
  return [
    ...demand(length <= MAX_RUNBOOK_LINES, `${path} has ${length} lines`),
    ...demand(
      text.includes(`Severity: ${severity}.`),
      `${path} has another severity than its rule`,
    ),
  ];
}

function checkMetrics(root: string, paths: readonly string[]): string[] {
  const sources = findFiles(root, '{packages,services}/*/src/**/*.ts');
  const known = new Set([
    ...sources.flatMap((path) => readText(root, path).match(/\bcarillon_[a-z_]+\b/g) ?? []),
    ...FOREIGN_METRICS,
  ]);
  return paths.flatMap((path) =>
    [...new Set(readText(root, path).match(METRIC))]
      .filter((name) => !known.has(name) && !known.has(name.replace(/_(bucket|count|sum)$/, '')))
      .map((name) => `${path} names ${name}, which is no metric`),
  );
}

/** Checks the objects of Kubernetes that hold the rules and the dashboards. */
function checkMonitoring(root: string, rules: readonly string[]): string[] {
  const groups = rules.flatMap((path) => readYaml<{ groups: object[] }>(root, path).groups);
  const ofCluster = JSON.parse(JSON.stringify(groups).replaceAll(COMPOSE_CONSOLE, CONSOLE));
  const rule = `${MONITORING}/prometheus-rule.yaml`;
  const written = readYaml<{ spec: { groups: object[] } }>(root, rule);
  const { configMapGenerator } = readYaml<{ configMapGenerator: { files: string[] }[] }>(
    root,
    `${MONITORING}/kustomization.yaml`,
  );
  const dashboards = findFiles(root, `${MONITORING}/dashboards/*.json`);
  return [
    ...demand(
      isDeepStrictEqual(written.spec.groups, ofCluster),
      `${rule} is not what \`npm run k8s:rules\` writes`,
    ),
    ...compare(
      `${MONITORING}/kustomization.yaml`,
      configMapGenerator.flatMap(({ files }) => files).sort(),
      dashboards.map((path) => `dashboards/${basename(path)}`),
    ),
  ];
}
