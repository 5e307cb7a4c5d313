import type { Finding } from '@carillon/admin/doctor';
import type { Command } from 'commander';
import { EXIT, Failure } from './failure.ts';
import { formatCount } from './output.ts';
import { type CommandContext, hasNoEndpoints, requireSetting } from './stack.ts';

/** Characters of the column with the checks' names. */
const NAME_WIDTH = 28;

/** Adds `carillon doctor`, which checks all parts of a stack. */
export function addDoctorCommand(
  program: Command,
  { stack, output, nodeVersion }: CommandContext & { nodeVersion: string },
): void {
  program
    .command('doctor')
    .description('check that all parts of the stack are healthy')
    .action(async () => {
      const target = stack();
      if (hasNoEndpoints(target)) requireSetting(target, 'mongodb');
      // Its libraries would take memory of every other command, such as an import of a million devices.
      const { checkStack } = await import('./check-stack.ts');
      const findings = await checkStack(target, nodeVersion);
      output.show(findings, findings.map(formatFinding));
      const failures = findings.filter(({ ok }) => !ok);
      if (failures.length === 0) return;
      const names = failures.map(({ check }) => check).join(', ');
      const message = `${formatCount(failures.length, 'check')} failed: ${names}.`;
      throw new Failure(EXIT.failure, message, '');
    });
}

function formatFinding({ check, ok, detail }: Finding): string {
  return `${ok ? 'ok  ' : 'FAIL'}  ${check.padEnd(NAME_WIDTH)}${detail}`;
}
