import { join } from 'node:path';
import { createReports } from '@carillon/reports/reports';
import { runService, type ServiceContext } from '@carillon/runtime/service';
import { connectStore } from '@carillon/store/store';
import { createWebhookStore } from '@carillon/webhooks/webhook-store';
import packageJson from '../package.json' with { type: 'json' };
import { createConsole } from './console.ts';
import { createEngine } from './engine.ts';
import { type Environment, environment } from './environment.ts';

const PAGES = join(import.meta.dirname, '../web/dist');
const RUNBOOKS = join(import.meta.dirname, '../../../docs/run/runbooks');

await runService('dashboard', environment, start, ({ STOP_DELAY_SECONDS }) => ({
  delayMs: STOP_DELAY_SECONDS * 1_000,
}));

async function start(context: ServiceContext, env: Environment): Promise<void> {
  const { release, trackActivity, waitFor } = context;
  const store = await waitFor('MongoDB', () =>
    connectStore({ uri: env.MONGODB_URI, appName: 'carillon-dashboard' }),
  );
  release('mongodb', store.close);
  await waitFor('the schema of MongoDB', store.schema.assertUsable);
  const engine = await createEngine(context, env, store);
  const onResponse = trackActivity('response');
  const all = { ...store, ...createReports(store), ...createWebhookStore(store) };
  const { version } = packageJson;
  const folders = { pagesFolder: PAGES, runbooksFolder: RUNBOOKS };
  const parts = { store: all, engine, ...folders, version, onResponse };
  const { stop } = await createConsole(context, env, parts);
  release('http', stop);
}
