import { spawnSync } from 'node:child_process';
import { CHART, renderChart } from '../helm-chart.ts';
import { compare, findFiles, readText } from './files.ts';

/** Checks that the Helm chart is what its command writes, where kubectl or kustomize is installed. */
export async function checkHelmChart(root: string): Promise<string[]> {
  const isHere = (program: string) => spawnSync(program, ['--help']).error === undefined;
  if (!['kubectl', 'kustomize'].some(isHere)) return [];
  const files = await renderChart();
  const expected = ['values.yaml', ...files.keys()].map((path) => `${CHART}/${path}`).sort();
  return [
    ...compare('files of the chart', findFiles(root, `${CHART}/**/*.*`), expected),
    ...[...files]
      .filter(([path, text]) => readText(root, `${CHART}/${path}`) !== text)
      .map(([path]) => `${CHART}/${path} is not what \`npm run k8s:chart\` writes`),
  ];
}
