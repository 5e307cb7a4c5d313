import { acceptPush } from '@carillon/accept/accept-push';
import { createProducers } from '@carillon/queue/producers';
import { connectStore } from '@carillon/store/store';
import { createRedriveWorker } from '../src/failures/redrive-worker.ts';

// Runs re-drives until it is killed.
const [uri = '', redisUrl = '', leaseMs = ''] = process.argv.slice(2);
const store = await connectStore({ uri, appName: 'redriving' });
const producers = createProducers({ url: redisUrl }, () => undefined);
createRedriveWorker({
  store,
  accept: (app, request, idempotency) =>
    acceptPush(store, producers, app, request, { idempotency }),
  onError: (error) => process.stderr.write(`${error}\n`),
  leaseMs: Number(leaseMs),
}).wake();
