import { createServer } from 'node:http';
import { z } from 'zod';
import { commonEnv, stopDelayEnv } from '../src/env.ts';
import { runService } from '../src/service.ts';

const environment = z.object({
  ...commonEnv,
  ...stopDelayEnv,
  PORT: z.coerce.number(),
});

// A service without parts, which `a-stop-waits-for-load-balancers` starts as a process.
await runService(
  'stopping',
  environment,
  async ({ release }, env) => {
    const server = createServer((_request, response) => void response.end('served'));
    server.listen(env.PORT, '127.0.0.1');
    release('http', () => void server.close());
    process.once('SIGUSR2', () => {
      throw new Error('unexpected');
    });
  },
  ({ STOP_DELAY_SECONDS }) => ({ delayMs: STOP_DELAY_SECONDS * 1_000 }),
);
