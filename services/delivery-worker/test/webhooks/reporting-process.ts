import { connectStore } from '@carillon/store/store';
import { report } from './webhook-under-test.ts';

// A worker that is to be killed: it reports to a webhook until then.
const [uri = '', webhook = ''] = process.argv.slice(2);
const store = await connectStore({ uri, appName: 'reporting-process' });
process.stdout.write('started\n');
for (;;) await report(store, webhook);
