import { createLogger } from '../src/logger.ts';

// A process that logs and ends at once, which `log-lines-survive-the-end-of-a-process` starts.
const LINES = 1_000;
const log = createLogger('logging', 'info');
for (let n = 0; n < LINES; n += 1) log.info({ n }, 'line');
switch (process.argv[2]) {
  case 'exit':
    process.exit();
    break;
  case 'fatal':
    log.fatal('the end');
    process.kill(process.pid, 'SIGKILL');
    break;
  case 'throw':
    throw new Error('unexpected');
}
