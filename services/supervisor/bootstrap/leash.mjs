// Started in the background with each stack, and only waits: its standard input ends when the
// supervisor has gone, however that came about. Then it ends what the supervisor left behind.

import { join } from 'node:path';
import { endProcesses, findLeftOver, removeTraces } from './left-over.mjs';
import { lockHolder } from './lock.mjs';

const home = process.argv[2];
await endProcesses(findLeftOver(home));
// A new start may have the folder by now; then these files are its own.
if (lockHolder(join(home, 'lock')) === undefined) removeTraces(home);
