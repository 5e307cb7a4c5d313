import {
  formatStatementReport,
  readStatementReport,
} from '../test/support/topologies/statement-records.ts';

const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error('name the folder of RECORD_STATEMENTS');
const report = readStatementReport(folder);
process.stdout.write(`${formatStatementReport(report)}\n`);
for (const mistake of report.mistakes) process.stderr.write(`${mistake}\n`);
if (report.mistakes.length > 0) process.exitCode = 1;
