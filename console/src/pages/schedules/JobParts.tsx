// What a schedule submits: the fields of a request, or a template and its fields.
import { SegmentedControl, Select } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { getTemplate, listTemplates, type Template } from '../../api/templates'
import { Refusal } from '../../ui/Refusal'
import type { Form } from '../request/form'
import { RequestFields } from '../request/RequestForm'
import { FieldInput } from '../templates/FieldInput'
import { beginValues, chooseWords, listFields, type Values } from '../templates/fields'

/** From where the job comes: kept as it was, the form, or a template. */
export type JobSource = 'same' | 'form' | 'template'

export interface ChosenTemplate {
  readonly template: Template
  readonly values: Values
}

interface JobPartsProps {
  readonly sources: readonly JobSource[]
  readonly source: JobSource
  choose(source: JobSource): void
  readonly form: Form
  change(part: Partial<Form>): void
  readonly errors: ReadonlyMap<keyof Form, string>
  readonly chosen: ChosenTemplate | null
  chooseTemplate(chosen: ChosenTemplate): void
  /** What the server says of a field of the template. */
  problem(field: string): string | undefined
}

export function JobParts(props: JobPartsProps) {
  const { t } = useTranslation('schedules')
  return (
    <>
      {props.sources.length > 1 && (
        <div>
          <span className="field-label" id="schedule-source">
            {t('submits')}
          </span>
          <SegmentedControl
            size="xs"
            aria-labelledby="schedule-source"
            data={props.sources.map((value) => ({ value, label: t(`sources.${value}`) }))}
            value={props.source}
            onChange={(value) => props.choose(value as JobSource)}
          />
        </div>
      )}
      {props.source === 'form' && (
        <RequestFields form={props.form} change={props.change} errors={props.errors} hasName={false} />
      )}
      {props.source === 'template' && (
        <TemplateFields chosen={props.chosen} choose={props.chooseTemplate} problem={props.problem} />
      )}
    </>
  )
}

interface TemplateFieldsProps {
  readonly chosen: ChosenTemplate | null
  choose(chosen: ChosenTemplate): void
  problem(field: string): string | undefined
}

function TemplateFields({ chosen, choose, problem }: TemplateFieldsProps) {
  const { t, i18n } = useTranslation('schedules')
  const rows = useQuery({ queryKey: ['templates'], queryFn: listTemplates })
  const usable = (rows.data ?? []).filter((row) => row.enabled)
  const keyOf = (row: { name: string; tenant?: string | null }) => `${row.tenant ?? ''}/${row.name}`
  const pick = async (key: string | null) => {
    const row = usable.find((each) => keyOf(each) === key)
    if (row === undefined) return
    const template = await getTemplate(row.name, row.tenant ?? null)
    choose({ template, values: beginValues(template.document.fields ?? {}) })
  }
  return (
    <div className="grid fields">
      {rows.isError && <Refusal error={rows.error} />}
      <Select
        label={t('template')}
        placeholder={t('chooseTemplate')}
        description={chosen ? chooseWords(chosen.template.document.summary, i18n.language) : undefined}
        searchable
        allowDeselect={false}
        data={usable.map((row) => ({
          value: keyOf(row),
          label: row.tenant ? `${row.name} (${row.tenant})` : row.name,
        }))}
        value={chosen ? keyOf(chosen.template) : null}
        error={problem('template')}
        onChange={(key) => void pick(key)}
      />
      {chosen !== null &&
        listFields(chosen.template.document.fields ?? {}).map((field) => (
          <FieldInput
            key={field.name}
            field={field}
            takes={chosen.template.takes[field.name] ?? ''}
            value={chosen.values[field.name] ?? ''}
            error={problem(field.name)}
            change={(value) => choose({ ...chosen, values: { ...chosen.values, [field.name]: value } })}
          />
        ))}
    </div>
  )
}
