import '@mantine/core/styles/ScrollArea.css';
import '@mantine/core/styles/Popover.css';
import '@mantine/core/styles/RadioCard.css';
import '@mantine/core/styles/RadioIndicator.css';
import '@mantine/core/styles/Radio.css';
import '@mantine/core/styles/Pill.css';
import '@mantine/core/styles/PillsInput.css';
import { Checkbox, MultiSelect, Radio, Stack } from '@mantine/core';
import { useState } from 'react';
import { change } from '../../api/request.ts';
import type { Account, Operator, Role } from '../../api/types.ts';
import { useChange } from '../../api/use-change.ts';
import { ROLE_TEXTS, ROLES } from '../../lib/roles.ts';
import { FormDialog } from '../../parts/form-dialog.tsx';
import { LINKS_PATH } from './open-links.tsx';

/** Operator whose access the form sets. */
export type AccessTarget = { kind: 'invite' } | { kind: 'change'; operator: Operator };

interface AccessFormProps {
  target: AccessTarget;
  accounts: readonly Account[];
  onClose: () => void;
  /** Is given the link of an invite. */
  onLink: (link: string) => void;
}

/** Sets the role and the accounts of an operator, or of an invite. */
export function AccessForm({ target, accounts, onClose, onLink }: AccessFormProps) {
  const before = target.kind === 'change' ? target.operator : undefined;
  const [role, setRole] = useState<Role>(before?.role ?? 'viewer');
  const [isAll, setAll] = useState((before?.accounts ?? 'all') === 'all');
  const [chosen, setChosen] = useState<string[]>(
    before === undefined || before.accounts === 'all' ? [] : [...before.accounts],
  );
  const access = { role, accounts: isAll ? 'all' : chosen };
  const save = useChange({
    run: async () => {
      if (target.kind === 'change') {
        await change('PUT', `/operators/${target.operator.id}`, access);
        return undefined;
      }
      return (await change('POST', '/operators/invite', access)).link;
    },
    outdated: [['/operators'], [LINKS_PATH]],
    onDone: (link) => {
      onClose();
      if (link !== undefined) onLink(link);
    },
  });
  return (
    <FormDialog
      title={before === undefined ? 'Invite an operator' : `Access of ${before.name}`}
      action={before === undefined ? 'Make a link' : 'Store'}
      isPending={save.isPending}
      isDisabled={!isAll && chosen.length === 0}
      gap="md"
      onSubmit={save.mutate}
      onClose={onClose}
    >
      <RoleChoice role={role} onChange={setRole} />
      <Checkbox
        label="The whole installation"
        checked={isAll}
        onChange={({ currentTarget }) => setAll(currentTarget.checked)}
      />
      {!isAll && (
        <MultiSelect
          label="Only these accounts"
          searchable
          data={accounts.map(({ id, name }) => ({ value: id, label: name }))}
          value={chosen}
          onChange={setChosen}
        />
      )}
    </FormDialog>
  );
}

function RoleChoice({ role, onChange }: { role: Role; onChange: (role: Role) => void }) {
  return (
    <Radio.Group
      label="Role"
      value={role}
      onChange={(value) => onChange(ROLES.find((known) => known === value) ?? 'viewer')}
    >
      <Stack gap={6} mt={4}>
        {ROLES.map((value) => (
          <Radio key={value} value={value} label={value} description={ROLE_TEXTS[value]} />
        ))}
      </Stack>
    </Radio.Group>
  );
}
