// What the server says but for why a job waits, in Chinese: the catalogues of the command line. A file of its own, got
// with the first of these texts.
import { messages, titles } from '../../../src/gpupool/terminal/chinese/texts/errors.json'
import fields from '../../../src/gpupool/terminal/chinese/texts/fields.json'
import output from '../../../src/gpupool/terminal/chinese/texts/output.json'
import status from '../../../src/gpupool/terminal/chinese/texts/status.json'

export { titles }
export default { ...messages, ...status, ...fields, ...output }
