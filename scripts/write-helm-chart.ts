// Writes the Helm chart k8s/chart, but for its values.yaml, from k8s/base and k8s/components:
//
//   npm run k8s:chart

import { writeChart } from './helm-chart.ts';

await writeChart();
