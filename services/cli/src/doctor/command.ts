import type { Command } from 'commander';
import { EXIT, Failure } from '../failure.ts';
import { count, type Output } from '../output.ts';
import { isNowhere, need, type Stack } from '../stack.ts';
import { lookAtFolder, lookAtNode, lookAtProcesses } from './machine.ts';
import { lookAtMqtt } from './mqtt.ts';
import { lookAtApi, lookAtMongodb, lookAtRedis } from './servers.ts';

const NAME_WIDTH = 28;

/** `carillon doctor`: what of a stack is well and what isn't, and the way out. */
export function addDoctorCommand(
  program: Command,
  { stack, output, nodeVersion }: { stack: () => Stack; output: Output; nodeVersion: string },
): void {
  program
    .command('doctor')
    .description('look whether all parts of the stack are well')
    .action(async () => {
      const where = stack();
      if (isNowhere(where)) need(where, 'mongodb');
      const findings = (
        await Promise.all([
          lookAtNode(nodeVersion),
          lookAtMongodb(where),
          lookAtRedis(where),
          lookAtApi(where),
          lookAtMqtt(where),
          lookAtFolder(where),
          lookAtProcesses(where),
        ])
      ).flat();
      output.show(
        findings,
        findings.map(
          ({ check, ok, detail }) =>
            `${ok ? 'ok  ' : 'FAIL'}  ${check.padEnd(NAME_WIDTH)}${detail}`,
        ),
      );
      const ill = findings.filter(({ ok }) => !ok);
      if (ill.length > 0) {
        const names = ill.map(({ check }) => check).join(', ');
        throw new Failure(EXIT.refused, `${count(ill.length, 'check')} failed: ${names}.`, '');
      }
    });
}
