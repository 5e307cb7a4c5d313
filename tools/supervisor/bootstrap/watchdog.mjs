// Cleans up after a supervisor that was killed: stops the processes that it left running. The
// shell in src/watchdog.ts runs this once the supervisor has ended.

import { join } from 'node:path';
import { findLockHolder } from './lock.mjs';
import { findOrphans, removeStateFiles, stopProcesses } from './orphans.mjs';

const dataDir = process.argv[2];
// A new stack may already hold the folder: then it has stopped the orphans, and the processes are its own.
const isLocked = () => findLockHolder(join(dataDir, 'lock')) !== undefined;
if (!isLocked()) await stopProcesses(findOrphans(dataDir));
if (!isLocked()) removeStateFiles(dataDir);
