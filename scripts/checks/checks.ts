import type { Check } from './files.ts';

/** The checks by name, each loaded when it runs: some import half of the code. */
export const CHECKS: Readonly<Record<string, Check>> = {
  documents: async (root) => (await import('./documents.ts')).checkDocuments(root),
  'code blocks': async (root) => (await import('./code-blocks.ts')).checkCodeBlocks(root),
  'generated pages': async (root) => (await import('./generated-pages.ts')).checkPages(root),
  'Helm chart': async (root) => (await import('./helm-chart.ts')).checkHelmChart(root),
  imports: async (root) => (await import('./imports.ts')).checkImports(root),
  licences: async (root) => (await import('./licences.ts')).checkLicences(root),
  alerts: async (root) => (await import('./alerts.ts')).checkAlerts(root),
  deployment: async (root) => (await import('./deployment.ts')).checkDeployment(root),
  'lists of tests': async (root) => (await import('./test-lists.ts')).checkTestLists(root),
};
