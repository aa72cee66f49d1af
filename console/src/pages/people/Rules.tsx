// The rules from groups to rights, in order: the first that fits a login counts.
import { ActionIcon, Autocomplete, Button, Select, TextInput } from '@mantine/core'
import { IconArrowDown, IconArrowUp, IconX } from '@tabler/icons-react'
import { useMutation, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { getTagged, isStale, listAll, putTagged, type Tagged } from '../../api/lists'
import type { components } from '../../api/schema'
import { Answer } from '../../ui/Answer'
import { Empty, Panel } from '../../ui/Page'
import { Refusal } from '../../ui/Refusal'
import { moveEntry, type TenantRow } from './people'

type Rule = components['schemas']['RuleIn']
type RuleTable = Tagged<{ rules: Rule[] }>

const PATH = '/api/v1/sso/rules'
const RULE_ROLES = ['admin', 'operator', 'auditor', 'tenant-admin', 'user', 'viewer'] as const

export function Rules({ providers }: { providers: readonly string[] }) {
  const { t } = useTranslation('people')
  const rules = useQuery({
    queryKey: ['people', 'rules'],
    queryFn: () => getTagged<{ rules: Rule[] }>(PATH),
    // The fields hold what was read: only the viewer replaces it.
    staleTime: Number.POSITIVE_INFINITY,
  })
  return (
    <Panel title={t('rules')} hint={t('rulesHint')}>
      <Answer query={rules}>{rules.data && <RuleForm first={rules.data} providers={providers} />}</Answer>
    </Panel>
  )
}

/** A rule in the form: its key stays with it while it moves. */
interface KeyedRule {
  readonly key: number
  readonly rule: Rule
}

let lastKey = 0
const keyRules = (rules: readonly Rule[]): KeyedRule[] =>
  rules.map((rule) => {
    lastKey += 1
    return { key: lastKey, rule }
  })

function RuleForm({ first, providers }: { first: RuleTable; providers: readonly string[] }) {
  const { t } = useTranslation('people')
  const tenants = useQuery({ queryKey: ['people', 'tenants'], queryFn: () => listAll<TenantRow>('/api/v1/tenants') })
  const [known, setKnown] = useState(first)
  const [rows, setRows] = useState(() => keyRules(first.body.rules))
  const [theirs, setTheirs] = useState<RuleTable | null>(null)
  const show = (table: RuleTable) => {
    setKnown(table)
    setRows(keyRules(table.body.rules))
    setTheirs(null)
  }
  const save = useMutation({
    mutationFn: (base: RuleTable) =>
      putTagged<{ rules: Rule[] }>(PATH, base.tag, { rules: rows.map((row) => row.rule) }),
    onSuccess: show,
    onError: async (error) => {
      if (isStale(error)) setTheirs(await getTagged(PATH))
    },
  })
  const change = (key: number, part: Partial<Rule>) =>
    setRows(rows.map((row) => (row.key === key ? { key, rule: { ...row.rule, ...part } } : row)))
  const add = () => setRows([...rows, ...keyRules([{ group: '', role: 'user', tenant: '' }])])
  const isChanged = JSON.stringify(rows.map((row) => row.rule)) !== JSON.stringify(known.body.rules)
  const tenantNames = (tenants.data ?? []).map((tenant) => tenant.name)
  return (
    <form
      className="form"
      onSubmit={(event) => {
        event.preventDefault()
        save.mutate(known)
      }}
    >
      {rows.length === 0 && <Empty>{t('noRules')}</Empty>}
      {rows.map(({ key, rule }, place) => (
        <fieldset key={key} className="row wrap rule" aria-label={t('rule', { number: place + 1 })}>
          <span className="num dim">{place + 1}</span>
          <TextInput
            className="third"
            label={t('group')}
            placeholder={t('anyGroup')}
            value={rule.group ?? ''}
            onChange={(event) => change(key, { group: event.currentTarget.value || null })}
          />
          <Select
            className="third"
            label={t('providerField')}
            placeholder={t('anyProvider')}
            clearable
            data={[...providers]}
            value={rule.provider ?? null}
            onChange={(provider) => change(key, { provider })}
          />
          <Select
            className="third"
            label={t('role')}
            allowDeselect={false}
            data={RULE_ROLES.map((value) => ({ value, label: t(`shell:role.${value}`) }))}
            value={rule.role}
            onChange={(role) => change(key, { role: (role as Rule['role'] | null) ?? rule.role })}
          />
          <Autocomplete
            className="third"
            label={t('tenant')}
            required
            data={tenantNames}
            value={rule.tenant}
            onChange={(tenant) => change(key, { tenant })}
          />
          <TextInput
            className="third"
            label={t('project')}
            value={rule.project ?? ''}
            onChange={(event) => change(key, { project: event.currentTarget.value || null })}
          />
          <TextInput
            className="third"
            label={t('runAs')}
            value={rule.run_as ?? ''}
            onChange={(event) => change(key, { run_as: event.currentTarget.value || null })}
          />
          <span className="row tight rule-acts">
            <ActionIcon
              variant="default"
              disabled={place === 0}
              aria-label={t('ruleUp', { number: place + 1 })}
              onClick={() => setRows(moveEntry(rows, place, -1))}
            >
              <IconArrowUp size={15} />
            </ActionIcon>
            <ActionIcon
              variant="default"
              disabled={place === rows.length - 1}
              aria-label={t('ruleDown', { number: place + 1 })}
              onClick={() => setRows(moveEntry(rows, place, 1))}
            >
              <IconArrowDown size={15} />
            </ActionIcon>
            <ActionIcon
              variant="default"
              aria-label={t('ruleRemove', { number: place + 1 })}
              onClick={() => setRows(rows.filter((row) => row.key !== key))}
            >
              <IconX size={15} />
            </ActionIcon>
          </span>
        </fieldset>
      ))}
      {theirs !== null ? (
        <div className="verdict refused" role="alert">
          <div>
            <b>{t('shell:saveConflict')}</b>
            <p>{t('rulesNow', { count: theirs.body.rules.length })}</p>
            <div className="row wrap">
              <Button size="xs" onClick={() => show(theirs)}>
                {t('takeTheirs')}
              </Button>
              <Button size="xs" variant="default" onClick={() => save.mutate(theirs)}>
                {t('keepMine')}
              </Button>
            </div>
          </div>
        </div>
      ) : (
        <div className="row wrap">
          <Button size="sm" variant="default" onClick={add}>
            {t('addRule')}
          </Button>
          <Button size="sm" type="submit" disabled={!isChanged} loading={save.isPending}>
            {t('saveRules')}
          </Button>
          <span role="status" className="small sub">
            {save.isSuccess && !isChanged ? t('saved') : ''}
          </span>
        </div>
      )}
      {save.isError && theirs === null && <Refusal error={save.error} />}
    </form>
  )
}
