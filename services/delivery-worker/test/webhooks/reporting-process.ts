import { connectStore } from '@carillon/store/store';
import { DEADLINE_MS } from '../../src/webhooks/client.ts';
import { report } from './webhook-under-test.ts';

// A worker that is to be killed: it reports to a webhook until then. It waits for responses as long as a real one, since a
// request that a busy machine answers late would be repeated, too.
const [uri = '', webhook = ''] = process.argv.slice(2);
const store = await connectStore({ uri, appName: 'reporting-process' });
process.stdout.write('started\n');
for (;;) await report(store, webhook, { deadlineMs: DEADLINE_MS });
