import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { ROOT } from '../support/first-run/test-home.ts';

const MONITORING = 'k8s/components/monitoring';
const RULES = find(`${MONITORING}/rules/*.yaml`);
const UNIT_TESTS = find('test/alerts/rules/*.yaml');
const RUNBOOKS = find('docs/run/runbooks/*.md');
const DASHBOARDS = find(`${MONITORING}/dashboards/*.json`);
const AUTOSCALERS = find('k8s/components/keda/*.yaml');
const PAGES = ['docs/run/operating.md', 'docs/run/scaling.md'];

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

const alerts = RULES.flatMap((path) =>
  textOf(path)
    .split(/^ {6}- alert: /m)
    .slice(1)
    .map((text) => ({ name: /^\w+/.exec(text)?.[0] ?? '', text })),
);

test('there are alerts', () => expect(alerts.length).toBeGreaterThan(15));

describe.each(alerts)('$name', ({ name, text }) => {
  test('has a severity, texts and the path of its runbook', () => {
    expect(text).toMatch(/^ {10}severity: (critical|warning)$/m);
    expect(text).toMatch(/^ {10}summary: \S/m);
    expect(text).toMatch(/^ {10}description: \S/m);
    expect(text).toContain(`runbook_url: docs/run/runbooks/${name}.md\n`);
  });

  test('has the reasons of its thresholds', () => expect(text).toMatch(/^ {8}# \w/m));

  test('has a unit test in which it fires, and one moment in which it does not', () => {
    const expectations = UNIT_TESTS.flatMap((path) => [
      ...textOf(path).matchAll(/alertname="(\w+)".*\n.*\n +exp_samples: (.*)/g),
    ]).filter(([, alert]) => alert === name);
    const results = new Set(expectations.map(([, , samples]) => samples));
    expect(results).toEqual(new Set(['[]', "[{ labels: '{}', value: 1 }]"]));
  });
});

test('each alert has its runbook, and each runbook its alert', () => {
  const names = RUNBOOKS.map((path) => basename(path, '.md'));
  expect(names).toEqual(alerts.map(({ name }) => name).sort());
});

test.each(RUNBOOKS)('%s is short', (path) => {
  expect(textOf(path).split('\n').length - 1).toBeLessThanOrEqual(MAX_RUNBOOK_LINES);
});

test.each(RUNBOOKS)('%s names the severity of its rule', (path) => {
  const rule = alerts.find(({ name }) => name === basename(path, '.md'));
  const severity = /severity: (\w+)/.exec(rule?.text ?? '')?.[1];
  expect(textOf(path)).toContain(`Severity: ${severity}.`);
});

test.each([...RULES, ...RUNBOOKS, ...DASHBOARDS, ...AUTOSCALERS, ...PAGES])(
  '%s names metrics that exist',
  (path) => {
    const known = new Set([...metricsOfCode(), ...FOREIGN_METRICS]);
    const unknown = [...textOf(path).matchAll(METRIC)]
      .map(([name]) => name)
      .filter((name) => !known.has(name) && !known.has(name.replace(/_(bucket|count|sum)$/, '')));
    expect([...new Set(unknown)]).toEqual([]);
  },
);

test('each file of rules has its file of unit tests', () => {
  expect(UNIT_TESTS.map((path) => basename(path))).toEqual(RULES.map((path) => basename(path)));
});

function metricsOfCode(): string[] {
  const sources = find('{packages,services}/*/src/**/*.ts');
  return sources.flatMap((path) => textOf(path).match(/\bcarillon_[a-z_]+\b/g) ?? []);
}

function find(pattern: string): string[] {
  return globSync(pattern, { cwd: ROOT }).sort();
}

function textOf(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8');
}
